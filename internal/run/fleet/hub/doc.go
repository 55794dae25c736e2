// Package hub starts and finds the hubs of fleets. A hub is a NATS server inside wirelab, or a NATS
// server that the user runs. It has a key-value bucket for the agents' cards, a stream for messages
// that must not be lost, and an object store for samples.
//
// A hub keeps its keys, its tokens and, while it runs, its address in a folder. A hub can run in
// the background, and can start agents on its own machine.
//
// This package must not know what agents measure.
package hub
