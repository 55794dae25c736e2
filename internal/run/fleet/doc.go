// Package fleet runs the ends of trials on other machines. It and its packages are the only ones
// that know NATS: protocol has the names, tokens and cards; hub starts and finds the NATS servers.
//
//		lab ── Controller ──── orders, signed ────> Agent ── worker processes
//		            ▲                                 │
//		            └── live, and what must be kept ──┘
//
//	 1. An agent (RunAgent) describes itself in the bucket of cards, and obeys orders: it starts
//	    the same worker processes as the lab, from programs whose hashes it knows, with specs
//	    that dial no address outside its ranges. It has a lease: if nobody renews the lease, its
//	    workers end.
//	 2. A controller (Controller) takes agents for a trial, compares their clocks with its own,
//	    makes them start their ends, and merges several clients into one. It is the lab.Fleet.
//
// An order is signed with the controller's key, names the agent and its session, and has a number
// that only grows. So the agent refuses the orders of a stranger or of another project, and an
// order that is sent again.
//
// This package must not know plans or cells, nor what records mean.
package fleet
