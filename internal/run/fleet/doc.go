// Package fleet runs the ends of trials on other machines. It is the only one that knows NATS.
//
//		lab ── Controller ──── orders, signed ────> Agent ── worker processes
//		            ▲                                 │
//		            └── live, and what must be kept ──┘
//
//	 1. A hub (Hub) is a nats-server, inside wirelab or the user's own, with what a fleet needs:
//	    a key-value bucket of the agents that there are, a stream of what must not be lost, a
//	    store of samples.
//	 2. An agent (RunAgent) says in the bucket who it is, and obeys orders: it starts the same
//	    worker processes as the lab does, of programs that it knows by their hashes, with specs
//	    that dial no address outside its ranges. It holds to a lease: when nobody renews it, its
//	    workers end.
//	 3. A controller (Controller) takes agents for a trial, compares their clocks with its own,
//	    has them start their ends, and makes one client of several. To the lab it is lab.Fleet.
//
// Nobody obeys whom he merely hears: an order is signed with the controller's key, names the
// agent and the agent's session, and has a number that only grows. So a stranger's, another
// project's, and one that is sent again are refused.
//
// Subjects, of the project P and the agent A:
//
//	wl.P.to.A.order             signed orders, answered
//	wl.P.to.A.clock             exchanges of instants, answered
//	wl.P.from.A.live.RUN.W      progress and intervals of the worker W; may be lost
//	wl.P.from.A.kept.RUN.W      ready, results and errors; in the stream wl_P_kept
//
// The bucket is wl_P_agents, the object store wl_P_samples.
//
// This package must not know plans, cells or records' meaning.
package fleet
