// Package hub starts and finds the hubs of fleets. A hub is a NATS server inside wirelab, or a NATS
// of the user's own, with what a fleet needs: a key-value bucket of the agents' cards, a stream of
// messages that must not be lost, and a store of samples.
//
// The state of a hub is a folder of its user, which holds its keys, its tokens and, while it runs,
// its address. A hub can run in the background, and start agents on its own machine.
//
// This package must not know what agents measure.
package hub
