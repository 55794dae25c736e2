package worker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
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
	// Warnings names CPUs or a priority that the end did not get.
	Warnings() []string
}

var _ End = (*Process)(nil)

// Every calls a function once per period until stop. stop waits for the last call.
func Every(period time.Duration, do func()) (stop func()) {
	over := make(chan struct{})
	var calling sync.WaitGroup
	calling.Go(func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				do()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		calling.Wait()
	})
}

// outsidePeriod is the time between two readings of another process. They cost more than
// a process's own.
const outsidePeriod = 5 * probe.DefaultPeriod / 2

// An Outsider reads the cost of a process that may not measure it itself, such as a peer. It is
// nil for wirelab's own workers, which measure their own cost.
type Outsider struct {
	PID     int
	sampler *probe.Sampler
}

// OutsideOf begins to read the cost of a process.
func OutsideOf(pid int) *Outsider {
	return Outside(pid, probe.WithStops(func() (probe.Usage, error) { return probe.OfProcess(pid) }))
}

// Outside begins to read the common cost of several processes. pid is one of them.
func Outside(pid int, read func() (probe.Usage, error)) *Outsider {
	return &Outsider{pid, probe.StartSampler(read, outsidePeriod)}
}

// Costs holds the readings of an Outsider. A nil field could not be read.
type Costs struct {
	Usage     *probe.Series
	Allowance *host.Allowance
}

// LookBack ends the readings and returns them. The process must still exist.
func (o *Outsider) LookBack() (seen Costs) {
	if o == nil {
		return seen
	}
	usage := o.sampler.Stop()
	seen.Usage = &usage
	if allowance, err := host.AllowanceOf(o.PID); err == nil { // otherwise it is unknown
		seen.Allowance = &allowance
	}
	return seen
}

// AddTo fills in the costs that the client did not report.
func (c Costs) AddTo(r *ClientResult) {
	if c.Usage == nil {
		return
	}
	if window, err := c.Usage.Between(r.BeginNS, r.EndNS); err == nil { // otherwise it is unknown
		r.Usage = cmp.Or(r.Usage, &window)
	}
	if course := r.Course; course != nil {
		course.ClientCPUNS = c.Usage.Stretches(r.BeginNS+course.BeginNS, course.StretchNS, len(course.Calls))
	}
	r.Allowance = cmp.Or(r.Allowance, c.Allowance)
}

// AddToServer fills in the costs that the server did not report.
func (c Costs) AddToServer(r *ServerResult) {
	r.Usage, r.Allowance = cmp.Or(r.Usage, c.Usage), cmp.Or(r.Allowance, c.Allowance)
}

// WithoutSiblings subtracts, from the CPU time of other programs on a machine, the CPU time of
// other agents there that ran workers of the same trial.
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
