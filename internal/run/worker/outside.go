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

// A TrialEnd is the server or the client of a trial: a Process on this machine, a process that an
// agent runs on another machine, or several such processes that act as one client.
type TrialEnd interface {
	// Ready, Result and Stop do the same as the methods of Process.
	Ready(ctx context.Context) (Ready, error)
	Result(ctx context.Context) (Result, error)
	Stop() error
	Kill()
	SendControl(o ControlOrder) error
	// PID returns the number of the end's process on this machine, or 0.
	PID() int
	// CPU returns the CPU time that the end used on this machine.
	CPU() time.Duration
	// Warnings names CPUs or a priority that the end asked for but did not get.
	Warnings() []string
}

var _ TrialEnd = (*Process)(nil)

// RunEvery calls a function once per period until stop is called. stop waits for the last call.
func RunEvery(period time.Duration, do func()) (stop func()) {
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

// outsideReadPeriod is the time between two readings of another process. Such a reading costs more
// than a reading of the own process.
const outsideReadPeriod = 5 * probe.DefaultSamplingPeriod / 2

// An OutsideReader reads the cost of a process that may not measure its own cost, such as a peer.
// It is nil for wirelab's own workers, which measure their own cost.
type OutsideReader struct {
	PID     int
	sampler *probe.Sampler
}

// ReadCostOfProcess begins to read the cost of a process.
func ReadCostOfProcess(pid int) *OutsideReader {
	return ReadCostOf(pid, probe.WithStoppedTime(func() (probe.Usage, error) { return probe.ReadProcess(pid) }))
}

// ReadCostOf begins to read the common cost of several processes. pid is one of them.
func ReadCostOf(pid int, read func() (probe.Usage, error)) *OutsideReader {
	return &OutsideReader{pid, probe.StartSampler(read, outsideReadPeriod)}
}

// OutsideCosts holds the readings of an OutsideReader. A field is nil if it could not be read.
type OutsideCosts struct {
	Usage     *probe.Series
	Allowance *host.Allowance
}

// StopReading ends the readings and returns the costs. The process must still exist.
func (o *OutsideReader) StopReading() (seen OutsideCosts) {
	if o == nil {
		return seen
	}
	usage := o.sampler.Stop()
	seen.Usage = &usage
	if allowance, err := host.ReadAllowance(o.PID); err == nil { // otherwise the allowance is unknown
		seen.Allowance = &allowance
	}
	return seen
}

// AddToClient fills in the costs that the client did not report.
func (c OutsideCosts) AddToClient(r *ClientResult) {
	if c.Usage == nil {
		return
	}
	if window, err := c.Usage.Between(r.BeginNS, r.EndNS); err == nil { // otherwise the usage is unknown
		r.Usage = cmp.Or(r.Usage, &window)
	}
	if course := r.Course; course != nil {
		course.ClientCPUNS = c.Usage.CPUPerInterval(r.BeginNS+course.BeginNS, course.StretchNS, len(course.Calls))
	}
	r.Allowance = cmp.Or(r.Allowance, c.Allowance)
}

// AddToServer fills in the costs that the server did not report.
func (c OutsideCosts) AddToServer(r *ServerResult) {
	r.Usage, r.Allowance = cmp.Or(r.Usage, c.Usage), cmp.Or(r.Allowance, c.Allowance)
}

// SubtractSiblingAgents removes the agents of this trial from each machine's "other programs": if
// several agents run on one machine, each of them counted the others as other programs.
func SubtractSiblingAgents(machines ...*MachineReadings) {
	machines = slices.DeleteFunc(machines, func(m *MachineReadings) bool { return m == nil })
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
