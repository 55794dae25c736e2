// Package hub starts and finds the hubs of fleets. A hub is a NATS server inside wirelab, or the
// user's own NATS. It has a key-value bucket for the agents' cards, a stream for messages that must
// not be lost, and an object store for samples.
//
// A hub keeps its state in a folder: its keys, its tokens and, while it runs, its address. A hub
// can run in the background, and start agents on its own machine.
//
// This package must not know what agents measure.
package hub
