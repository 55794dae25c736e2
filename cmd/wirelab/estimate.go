package main

import (
	"cmp"
	"slices"
	"time"

	"wirelab.dev/internal/lab"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
)

// estimate estimates the time that is left of a run.
//
// What a trial should take is known from its cell: the window, the warm-up, the start of two
// processes. What trials took is held against that, cell by cell, also those of a run that
// goes on. A cell of which nothing is known yet takes what it should, times the median of
// that ratio over the others, so that one slow cell moves its own repeats alone.
type estimate struct {
	expected []time.Duration          // of each trial of the plan
	cells    []string                 // of each trial of the plan
	open     map[int]bool             // trials without a record
	spent    map[string]time.Duration // by the last trial of each cell
	should   map[string]time.Duration // by those, what they were expected to take

	done    int
	began   time.Time // the run
	started time.Time // the running trial
}

// newEstimate reads what trials of the run took that are done; run is nil where none is.
func newEstimate(plan []scenario.Planned, run *record.Run) *estimate {
	e := &estimate{open: map[int]bool{}, began: time.Now(), spent: map[string]time.Duration{}, should: map[string]time.Duration{}}
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
	// trialOverhead is what starting and ending two processes takes, about.
	trialOverhead = 600 * time.Millisecond
	// usualCall is a call's share of the time of a loop that has so many requests to make.
	usualCall = 40 * time.Microsecond
	// usualSteps are those of a search.
	usualSteps = 45
)

// expectedTime is what a trial should take on a usual machine.
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
		window = time.Duration(requests) * usualCall
	}
	warmUp := min(time.Duration(c.WarmUp.AtMost), 2*time.Duration(c.WarmUp.AtLeast))
	return trialOverhead + warmUp + window
}

func (e *estimate) begins() { e.started = time.Now() }

// measured ends a trial that ran just now.
func (e *estimate) measured(number int) {
	e.took(number, time.Since(e.started))
	e.started = time.Time{}
}

func (e *estimate) took(number int, took time.Duration) {
	cell := e.cells[number]
	e.spent[cell], e.should[cell] = took, e.expected[number]
}

// ends ends a trial that has a record now. One that was given up did not run just now.
func (e *estimate) ends(number int) {
	delete(e.open, number)
	e.done++
	if !e.started.IsZero() {
		e.measured(number)
	}
}

// remaining is the time that the trials without a record will take. What waiting for a
// quiet machine will take is not known.
func (e *estimate) remaining() time.Duration {
	slower := e.slower()
	var sum time.Duration
	for number := range e.open {
		if took, ok := e.spent[e.cells[number]]; ok {
			sum += took
		} else {
			sum += time.Duration(slower * float64(e.expected[number]))
		}
	}
	return sum
}

// slower is how many times longer than expected the cells took, in the median.
func (e *estimate) slower() float64 {
	var ratios []float64
	for cell, took := range e.spent {
		ratios = append(ratios, float64(took)/float64(max(1, e.should[cell])))
	}
	if len(ratios) == 0 {
		return 1
	}
	slices.SortFunc(ratios, cmp.Compare[float64])
	return ratios[len(ratios)/2]
}

// all is how many trials the plan has.
func (e *estimate) all() int { return len(e.cells) }
