// Package protocol defines what the machines of a fleet have in common: names of NATS subjects,
// tokens for joining a fleet, cards that describe agents, selectors that choose agents by labels,
// and the connection to a hub.
//
// These are the subjects of the project P and the agent A:
//
//	wl.P.to.A.order             signed orders, answered
//	wl.P.to.A.clock             exchanges of instants, answered
//	wl.P.to.A.got               the controller has a message of wl.P.from.A.kept or .samples
//	wl.P.from.A.card            who the agent is; in the stream wl_P_card
//	wl.P.from.A.answer.X        answers
//	wl.P.from.A.live.RUN.W      progress and intervals of the worker W; may be lost
//	wl.P.from.A.kept            ready, results and errors; sent until the controller has them
//	wl.P.from.A.samples         parts of files of samples; likewise
//	wl.P.gate.QUESTION          questions to the hub, answered
//
// PermissionsOf returns who may use which. Only the agent A publishes to wl.P.from.A.
package protocol
