package plan

import (
	"slices"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// An Estimate estimates the time that is left of a run.
//
// What a trial should take is known from its cell: the window, the warm-up, the start of two
// processes. What trials took is held against that, cell by cell, also those of a run that
// goes on. A cell without a trial takes what it should, times the median of
// that ratio over the cells that are most like it: of its stack and sizes, then of its sizes and
// clients, then of its part, then all. So one slow cell moves its own repeats and those like
// it alone.
type Estimate struct {
	plan     []scenario.Planned
	expected []time.Duration          // of each trial of the plan
	cells    []string                 // of each trial of the plan
	open     map[int]bool             // trials without a record
	spent    map[string]time.Duration // by the last trial of each cell
	trials   map[string]int           // by those, one of their trials

	done    int
	began   time.Time // the run
	started time.Time // the running trial
}

// NewEstimate reads the times of the trials of the run that are done. A nil run has none.
func NewEstimate(plan []scenario.Planned, run *record.Run) *Estimate {
	e := &Estimate{plan: plan, open: map[int]bool{}, began: time.Now(), spent: map[string]time.Duration{}, trials: map[string]int{}}
	order := lab.Order(plan)
	for i, t := range order {
		e.expected, e.cells = append(e.expected, expectedTime(plan[i].Cell)), append(e.cells, t.Cell)
		if run != nil && run.Done(t.Trial) {
			e.done++
		} else {
			e.open[t.Trial] = true
		}
	}
	if e.done == 0 {
		return e
	}
	for r, err := range run.Records() {
		if err != nil {
			break // whoever reads the run for its figures will say so
		}
		if r.Trial < len(e.cells) {
			e.took(r.Trial, time.Duration(r.TookNS))
		}
	}
	return e
}

const (
	// trialOverhead is the time to start and end two processes, roughly.
	trialOverhead = 600 * time.Millisecond
	// usualCall is the time of one call in a loop that makes a fixed number of requests,
	// usualByte that of each of its bytes, and usualConnection that of a connection of its own.
	usualCall       = 40 * time.Microsecond
	usualByte       = 3 * time.Nanosecond
	usualConnection = 300 * time.Microsecond
	// usualSteps is the number of steps of a search.
	usualSteps = 45
)

// expectedTime returns the time that a trial should take on a usual machine.
func expectedTime(c scenario.Cell) time.Duration {
	window := time.Duration(c.Load.Duration)
	switch {
	case c.Load.Model == scenario.Search:
		window *= usualSteps
	case window == 0:
		requests := max(c.Load.Total, c.Load.Requests)
		if c.Load.Model == scenario.Closed && c.Load.Total == 0 {
			requests *= c.Clients
		}
		call := usualCall + time.Duration(c.Size.Request+c.Size.Response)*usualByte
		if c.Connection.Mode.PerRequest() {
			call += usualConnection
		}
		work, _ := workloads.Work(c.Workload)
		wait := work + c.Network.RoundTrip() // of one client for each of its answers
		window = max(time.Duration(requests)*call, time.Duration(requests/max(1, c.Clients))*wait)
	}
	warmUp := min(time.Duration(c.WarmUp.AtMost), 2*time.Duration(c.WarmUp.AtLeast))
	return trialOverhead + warmUp + window
}

// Observe follows the events of the run.
func (e *Estimate) Observe(event live.Event) {
	switch event := event.(type) {
	case live.Begun:
		e.started = time.Now()
	case live.SetBack:
		e.measured(event.Record.Trial)
	case live.Ended: // a trial that was given up did not run just now
		delete(e.open, event.Record.Trial)
		e.done++
		if !e.started.IsZero() {
			e.measured(event.Record.Trial)
		}
	}
}

// measured ends a trial that ran just now.
func (e *Estimate) measured(number int) {
	e.took(number, time.Since(e.started))
	e.started = time.Time{}
}

func (e *Estimate) took(number int, took time.Duration) {
	cell := e.cells[number]
	e.spent[cell], e.trials[cell] = took, number
}

// A likeness holds what cells have in common. Zero fields may differ.
type likeness struct {
	part, stack string
	sizes       scenario.Payload
	clients     int
}

// likenesses returns the likenesses of a cell, from the nearest to the one that all cells share.
func likenesses(c scenario.Cell) []likeness {
	return []likeness{
		{part: c.Part, stack: c.Variant.Stack, sizes: c.Size},
		{part: c.Part, sizes: c.Size, clients: c.Clients},
		{part: c.Part},
		{},
	}
}

// Remaining returns the time that the trials without a record will take. It does not include waits
// for a quiet machine, which are unknown.
func (e *Estimate) Remaining() time.Duration {
	slower := e.slower()
	var sum time.Duration
	for number := range e.open {
		if took, ok := e.spent[e.cells[number]]; ok {
			sum += took
			continue
		}
		expected := float64(e.expected[number])
		for _, like := range likenesses(e.plan[number].Cell) {
			if times, known := slower[like]; known {
				expected *= times
				break
			}
		}
		sum += time.Duration(expected)
	}
	return sum
}

// slower returns how many times longer than expected the cells of each likeness took, as a median.
func (e *Estimate) slower() map[likeness]float64 {
	ratios := map[likeness][]float64{}
	for cell, took := range e.spent {
		number := e.trials[cell]
		for _, like := range likenesses(e.plan[number].Cell) {
			ratios[like] = append(ratios[like], float64(took)/float64(max(1, e.expected[number])))
		}
	}
	medians := map[likeness]float64{}
	for like, all := range ratios {
		slices.Sort(all)
		medians[like] = all[len(all)/2]
	}
	return medians
}

// Done returns how many trials have a record.
func (e *Estimate) Done() int { return e.done }

// All returns how many trials the plan has.
func (e *Estimate) All() int { return len(e.cells) }

// Took returns the time since the estimate was made.
func (e *Estimate) Took() time.Duration { return time.Since(e.began) }

// OpenCells returns how many cells have trials without a record.
func (e *Estimate) OpenCells() int {
	cells := map[string]bool{}
	for number := range e.open {
		cells[e.cells[number]] = true
	}
	return len(cells)
}
