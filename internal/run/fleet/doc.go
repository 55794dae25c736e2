// Package fleet runs the ends of trials on other machines. It and its packages are the only ones
// that know NATS: protocol has the names, tokens and cards, and hub what brings machines together.
//
//		lab ── Controller ──── orders, signed ────> Agent ── worker processes
//		            ▲                                 │
//		            └── live, and what must be kept ──┘
//
//	 1. An agent (RunAgent) says in the bucket who it is, and obeys orders: it starts the same
//	    worker processes as the lab does, of programs that it knows by their hashes, with specs
//	    that dial no address outside its ranges. It holds to a lease: when nobody renews it, its
//	    workers end.
//	 2. A controller (Controller) takes agents for a trial, compares their clocks with its own,
//	    has them start their ends, and makes one client of several. To the lab it is lab.Fleet.
//
// An agent does not obey whatever it hears. An order is signed with the controller's key, names
// the agent and its session, and has a number that only grows. So the agent refuses the orders of
// a stranger, of another project, and those that are sent again.
//
// This package must not know plans or cells, nor what records mean.
package fleet
