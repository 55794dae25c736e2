// Package protocol defines what the machines of a fleet share: the names of NATS subjects, the
// tokens with which machines join a fleet, the cards with which agents describe themselves, the
// selectors that choose agents by their labels, and the connection to a hub.
//
// These are the subjects of the project P and the agent A:
//
//	wl.P.to.A.order             signed orders, answered
//	wl.P.to.A.clock             exchanges of instants, answered
//	wl.P.from.A.live.RUN.W      progress and intervals of the worker W; may be lost
//	wl.P.from.A.kept.RUN.W      ready, results and errors; in the stream wl_P_kept
//
// The bucket of cards is wl_P_agents, the object store of samples wl_P_samples.
package protocol
