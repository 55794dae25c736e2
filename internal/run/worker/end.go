package worker

import (
	"context"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
)

// End is one end of a trial as the lab knows it: a Process of this machine, one that an agent
// looks after on another, or several of those that are one client.
type End interface {
	// Ready, Result and Stop do the same as the methods of Process.
	Ready(ctx context.Context) (Ready, error)
	Result(ctx context.Context) (Result, error)
	Stop() error
	Kill()
	Tell(o Order) error
	// PID is its process on this machine, or 0.
	PID() int
	// CPU is the processor time that it took on this machine.
	CPU() time.Duration
	// Warnings lists what the end did not get.
	Warnings() []string
}

var _ End = (*Process)(nil)

// WithoutSiblings subtracts, from what others took on a machine, what other agents on it took
// for the same trial.
func WithoutSiblings(machines ...*Machine) {
	machines = slices.DeleteFunc(machines, func(m *Machine) bool { return m == nil })
	own, ours := map[string]int64{}, map[string][]int{}
	for _, m := range machines {
		own[m.Boot] += m.OwnNS
		ours[m.Boot] = append(ours[m.Boot], m.PIDs...)
	}
	for _, m := range machines {
		m.State.Neighbours = slices.DeleteFunc(m.State.Neighbours, func(n record.Neighbour) bool { return slices.Contains(ours[m.Boot], n.PID) })
		share := m.State.OthersShare
		if share == nil || m.WholeNS <= 0 {
			continue
		}
		*share = max(0, *share-float64(own[m.Boot]-m.OwnNS)/float64(m.WholeNS))
	}
}
