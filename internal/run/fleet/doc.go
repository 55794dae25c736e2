// Package fleet runs trials' servers and clients on other machines. Only this package and its
// subpackages know NATS: protocol has the names, tokens and cards; hub has the NATS servers.
//
//		lab ── Controller ──── orders, signed ────> Agent ── worker processes
//		            ▲                                 │
//		            └── live, and what must be kept ──┘
//
//	 1. An agent (RunAgent) describes itself by a card in the stream of cards, and executes orders.
//	    It starts the same worker processes as the lab, but only from programs whose hashes it
//	    knows, and its clients dial no address outside its ranges. If nobody renews its lease, it
//	    ends its workers.
//	 2. A controller (Controller) leases agents for a trial, compares their clocks with its own,
//	    orders them to start workers, and merges several clients into one. It implements lab.Fleet.
//
// The controller signs each order with its key. An order names the agent and its session, and has a
// growing number. With these, an agent refuses orders of strangers, other fleets' orders and
// repeated orders. An agent's messages come on subjects that only this agent may use, are for one
// worker with a random name, and must fit its order. Results are sent again until the controller has
// them.
//
// This package must not know plans, cells, or the meaning of records.
package fleet
