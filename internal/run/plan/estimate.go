package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// An Estimate estimates the time that is left of a run.
//
// The expected time of a trial follows from its cell: the window, the warm-up, the start of two
// processes. Measured trials, also those before an interruption, give the ratio of real to
// expected time for their cell. A cell without a trial takes its expected time times the median
// ratio of the cells that are most like it: of its stack and sizes, then of its sizes and
// clients, then of its part, then all. So one slow cell changes only cells like it.
type Estimate struct {
	plan     []scenario.Planned
	expected []time.Duration          // of each trial of the plan
	cells    []string                 // of each trial of the plan
	open     map[int]bool             // trials without a record
	spent    map[string]time.Duration // by the last trial of each cell
	trials   map[string]int           // trials by one of the last trials of its cell; see spent

	done    int
	began   time.Time // when the run began
	started time.Time // when the running trial started
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
			break // reading the run's figures will report it
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
	// usualCall is the time per call in a loop that makes a fixed number of requests, usualByte
	// the time per byte, and usualConnection the time to open a connection.
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

// measured records the time of a trial that has just ended.
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

// Remaining returns the time of the trials without a record, without waits for a quiet machine.
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

// RunsDirectory holds the runs that are given no directory.
const RunsDirectory = "wirelab-runs"

// Directory returns the directory of a run that is given none, if it is free.
func Directory(name string, now time.Time) string {
	return filepath.Join(RunsDirectory, name+"-"+now.Format("20060102-150405"))
}

// Manifest describes the run of a scenario. Kept is the scenario as the run keeps it. The caller
// adds the tool, the command, the fleet and the warnings.
func Manifest(s, kept *scenario.Scenario, u *record.Until, started time.Time) (record.Manifest, error) {
	order := lab.Order(Trials(s, u))
	m := record.Manifest{
		Version: record.Version, Name: s.Name, Title: s.Title, Question: s.Question,
		Started: started, Status: record.Running, Seed: s.Seed,
		Trials: len(order), Order: order, Until: u,
	}
	var err error
	for _, part := range []struct {
		into  *json.RawMessage
		value any
	}{{&m.Scenario, kept}, {&m.Declarations, declarations(s.Parts)}, {&m.Host, host.Describe()}} {
		if *part.into, err = json.Marshal(part.value); err != nil {
			return m, fmt.Errorf("encode the manifest: %w", err)
		}
	}
	return m, nil
}

// A Rehearsal says what a run would do.
type Rehearsal struct {
	Title     string  `json:"title"`
	Trials    int     `json:"trials"`         // to be measured
	Done      int     `json:"done,omitempty"` // trials with a record, of a run that is continued
	Cells     int     `json:"cells"`
	Seconds   float64 `json:"estimated_seconds"` // on a quiet machine
	Directory string  `json:"directory"`
	Looks     int     `json:"looks,omitempty"`       // 0: the run has no looks
	AtMost    int     `json:"trials_most,omitempty"` // trials of all looks
}

// Rehearse says what measuring a scenario would do. Run is the run to be continued, or nil.
func Rehearse(s *scenario.Scenario, u *record.Until, run *record.Run, directory string) Rehearsal {
	left := NewEstimate(Trials(s, u), run)
	r := Rehearsal{
		Title: s.Title, Trials: left.All() - left.Done(), Done: left.Done(), Cells: left.OpenCells(),
		Seconds: left.Remaining().Seconds(), Directory: cmp.Or(directory, Directory(s.Name, time.Now())),
	}
	if u != nil {
		r.Looks, r.AtMost = len(u.Looks), len(MostTrials(s, u))
	}
	return r
}

// Limits, so that reading earlier runs does not delay a new one.
const (
	earlierRuns  = 50 // manifests read per folder
	earlierRead  = 5  // runs whose records are read
	earlierBytes = 16 << 20
)

// Outlook says what a plan could find at the noise of the earlier runs that can be read.
func Outlook(cells []record.Cell, until *record.Until, folders []string) string {
	forecast := compare.NewForecast(cells, until)
	if forecast == nil {
		return "" // it compares nothing
	}
	tried := map[bool]int{}
	for _, run := range earlierHere(cells, folders) {
		tried[run.isSame]++
		if tried[run.isSame] <= earlierRead && (run.isSame && !forecast.KnowsEnough() || !run.isSame && forecast.NeedsOthers()) {
			learn(forecast, run.directory)
		}
	}
	p, noise := forecast.Power()
	where := "of other cells in "
	if noise.OfSame {
		where = "of the same cells in "
	}
	if len(noise.Runs) == 1 {
		where += noise.Runs[0]
	} else {
		where += fmt.Sprintf("%d earlier runs", len(noise.Runs))
	}
	return advice.Outlook(p, forecast.Repeats(), where)
}

type earlierRun struct {
	directory string
	started   time.Time
	isSame    bool // it has cells of the plan
}

// earlierHere returns this machine's runs, those with cells of the plan first, the newest first.
func earlierHere(cells []record.Cell, folders []string) (runs []earlierRun) {
	planned := map[string]bool{}
	for _, cell := range cells {
		planned[cell.Key()] = true
	}
	here := host.Describe()
	for _, folder := range folders {
		for _, directory := range record.Newest(folder, earlierRuns, earlierBytes) {
			var there host.Info
			m, err := record.ReadManifest(directory)
			if err != nil || json.Unmarshal(m.Host, &there) != nil || !here.IsMachineOf(&there) {
				continue
			}
			isSame := slices.ContainsFunc(m.Order, func(t record.PlannedTrial) bool { return planned[t.Cell] })
			runs = append(runs, earlierRun{directory, m.Started, isSame})
		}
	}
	slices.SortStableFunc(runs, func(a, b earlierRun) int {
		if a.isSame != b.isSame {
			return map[bool]int{true: -1, false: 1}[a.isSame]
		}
		return b.started.Compare(a.started)
	})
	return runs
}

// learn adds a run's noise to the forecast, if the run can be read.
func learn(forecast *compare.Forecast, directory string) {
	run, err := record.Open(directory)
	if err != nil {
		return
	}
	var records []*record.Record
	for r, err := range run.Records() {
		if err != nil {
			return
		}
		records = append(records, &r)
	}
	forecast.Learn(directory, &run.Manifest, records)
}
