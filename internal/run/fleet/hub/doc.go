// Package hub starts and finds the hubs of fleets. A hub is a NATS server inside wirelab. It knows who
// belongs to the fleet: its gate admits agents, gives each member a name and a key, and shuts members
// out. A NATS server of the user's own can be prepared for a fleet, too. Either has a stream of the
// agents' cards, and passes on all other messages.
//
// A hub keeps its keys, its tokens and, while it runs, its address in a folder. A hub can run in
// the background, and can start agents on its own machine.
//
// This package must not know what agents measure.
package hub
