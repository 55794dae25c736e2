// Package fleet runs the ends of trials on other machines. It and its packages are the only ones
// that know NATS: protocol has the names, tokens and cards; hub starts and finds the NATS servers.
//
//		lab ── Controller ──── orders, signed ────> Agent ── worker processes
//		            ▲                                 │
//		            └── live, and what must be kept ──┘
//
//	 1. An agent (RunAgent) describes itself by a card in the bucket of cards, and executes orders.
//	    It starts the same worker processes as the lab, but only from programs whose hashes it
//	    knows, and its clients dial no address outside its ranges. If nobody renews its lease, it
//	    ends its workers.
//	 2. A controller (Controller) leases agents for a trial, compares their clocks with its own,
//	    orders them to start workers, and merges several clients into one. It implements lab.Fleet.
//
// An order is signed with the controller's key, names the agent and its session, and has a growing
// number. So the agent refuses orders of strangers and of other projects, and repeated orders.
//
// This package must not know plans or cells, nor what records mean.
package fleet
