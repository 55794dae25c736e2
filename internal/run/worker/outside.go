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

// A TrialEnd is the server or the client of a trial. It is a Process on this machine, a worker on
// another machine, or a group of workers that act as one client.
type TrialEnd interface {
	// Ready, Result and Stop do the same as these methods of Process.
	Ready(ctx context.Context) (Ready, error)
	Result(ctx context.Context) (Result, error)
	Stop() error
	Kill()
	SendControl(o ControlOrder) error
	// PID returns the number of the process on this machine. It returns 0 if there is none.
	PID() int
	// CPU returns the CPU time that the server or the client used on this machine.
	CPU() time.Duration
	// Warnings names the CPUs or the priority that the process asked for but did not get.
	Warnings() []string
}

var _ TrialEnd = (*Process)(nil)

// RunEvery calls do once per period until stop is called. stop waits for a running call of do.
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

// outsideReadPeriod is the time between two readings of another process. It is long, since reading
// another process costs more than reading the own process.
const outsideReadPeriod = 5 * probe.DefaultSamplingPeriod

// An OutsideReader reads the cost of another process, since a peer may not measure its own cost. It
// is nil for wirelab's own workers, which measure their own cost.
type OutsideReader struct {
	PID     int
	sampler *probe.Sampler
}

// ReadCostOfProcess starts to read the cost of a process.
func ReadCostOfProcess(pid int) *OutsideReader {
	return ReadCostOf(pid, probe.WithStoppedTime(func() (probe.Usage, error) { return probe.ReadProcess(pid) }))
}

// ReadCostOf starts to read the total cost of several processes. pid is the number of one of them.
func ReadCostOf(pid int, read func() (probe.Usage, error)) *OutsideReader {
	return &OutsideReader{pid, probe.StartSampler(read, outsideReadPeriod)}
}

// Spent returns the CPU time that the process has used since the reader began, or 0 without a reader.
func (o *OutsideReader) Spent() time.Duration {
	if o == nil {
		return 0
	}
	return o.sampler.Spent()
}

// ReadNow takes a reading at an instant at which the process's load changes. It may be called at any time.
func (o *OutsideReader) ReadNow() {
	if o != nil {
		o.sampler.ReadNow()
	}
}

// OutsideCosts holds what an OutsideReader has read. A field is nil if reading it failed.
type OutsideCosts struct {
	Usage     *probe.Series
	Allowance *host.Allowance
}

// StopReading stops reading and returns the costs. The process must still exist at this point.
func (o *OutsideReader) StopReading() (seen OutsideCosts) {
	if o == nil {
		return seen
	}
	usage := o.sampler.Stop()
	seen.Usage = &usage
	if allowance, err := host.ReadAllowance(o.PID); err == nil { // otherwise Allowance stays nil
		seen.Allowance = &allowance
	}
	return seen
}

// AddToClient sets the costs in the result that the client has not set.
func (c OutsideCosts) AddToClient(r *ClientResult) {
	if c.Usage == nil {
		return
	}
	if window, err := c.Usage.Between(r.CostSpan()); err == nil { // else Usage is unknown
		r.Usage = cmp.Or(r.Usage, &window)
	}
	if course := r.Course; course != nil && len(r.Slices) == 0 { // a course leaves out the time between slices
		course.ClientCPUNS = c.Usage.CPUPerInterval(r.BeginNS+course.BeginNS, course.StretchNS, len(course.Calls))
	}
	r.Allowance = cmp.Or(r.Allowance, c.Allowance)
}

// AddToServer sets the costs in the result that the server has not set.
func (c OutsideCosts) AddToServer(r *ServerResult) {
	r.Usage, r.Allowance = cmp.Or(r.Usage, c.Usage), cmp.Or(r.Allowance, c.Allowance)
}

// SubtractSiblingAgents corrects each machine's "other programs". If several workers of a block ran on
// one machine, each one's readings count the others as other programs. All get the figures of the
// readings that lasted longest, since only those cover the lives of all.
func SubtractSiblingAgents(machines ...*MachineReadings) {
	machines = slices.DeleteFunc(machines, func(m *MachineReadings) bool { return m == nil })
	own, ours, longest := map[string]int64{}, map[string][]int{}, map[string]*MachineReadings{}
	for _, m := range machines {
		own[m.Boot] += m.OwnNS
		ours[m.Boot] = append(ours[m.Boot], m.PIDs...)
		if all := longest[m.Boot]; all == nil || all.WholeNS < m.WholeNS {
			longest[m.Boot] = m
		}
	}
	for boot, m := range longest {
		m.State.Neighbours = slices.DeleteFunc(m.State.Neighbours, func(n record.Neighbour) bool { return slices.Contains(ours[boot], n.PID) })
		if share := m.State.OthersShare; share != nil && m.WholeNS > 0 {
			*share = max(0, *share-float64(own[boot]-m.OwnNS)/float64(m.WholeNS))
		}
	}
	for _, m := range machines {
		all := longest[m.Boot].State
		m.State.Neighbours, m.State.OthersShare = all.Neighbours, all.OthersShare
	}
}
