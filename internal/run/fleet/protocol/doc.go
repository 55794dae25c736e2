// Package protocol defines what the machines of a fleet have in common: names of NATS subjects,
// tokens for joining a fleet, cards that describe agents, selectors that choose agents by labels,
// and the connection to a hub.
//
// These are the subjects of the project P and the agent A:
//
//	wl.P.to.A.order             signed orders, answered
//	wl.P.to.A.clock             exchanges of instants, answered
//	wl.P.from.A.live.RUN.W      progress and intervals of the worker W; may be lost
//	wl.P.from.A.kept.RUN.W      ready, results and errors; in the stream wl_P_kept
//
// wl_P_agents is the bucket of cards, and wl_P_samples is the object store of samples.
package protocol
