package lab

import (
	"context"

	"wirelab.dev/internal/host"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/worker"
)

// Fleet is agents on other machines that run a trial's ends.
type Fleet interface {
	// Stage takes agents for a trial whose client has so many callers, and compares their
	// clocks with this machine's. An error that other agents, or the same ones later, would not
	// meet is a failure of the trial only.
	Stage(ctx context.Context, callers int) (Stage, error)
	// Agents is how many have a part of so many callers.
	Agents(callers int) int
}

// Stage is where a trial's ends are started. End must be called.
type Stage interface {
	// Address is where a server is to listen.
	Address() string
	// Limits are the least of the machines that have clients.
	Limits() host.Limits
	// Start starts an end, as worker.Start does. A client may be one of several machines
	// together: its result then has parts. Instants of results are on this machine's clock.
	Start(ctx context.Context, l worker.Launch) (worker.End, error)
	// End compares the clocks again, lets go of the agents, and fills in what is known of them.
	End(ctx context.Context, r *record.Fleet) error
}
