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

// A TimeEstimate estimates the remaining time of a run.
//
// The expected time of a trial follows from its cell: the window, the warm-up, and the start of
// two processes. A measured trial gives the ratio of real to expected time for its cell. For a
// cell without a measured trial, the estimate multiplies the expected time by the median ratio
// of the most similar cells: the same stack and sizes, or the same sizes and clients, or the same
// part, or all cells. So a slow cell changes only the estimates of similar cells.
type TimeEstimate struct {
	plan     []scenario.PlannedCell
	expected []time.Duration          // the expected time of each trial of the plan
	cells    []string                 // the cell of each trial of the plan
	open     map[int]bool             // trials without a record
	spent    map[string]time.Duration // the time of each cell's last measured trial
	trials   map[string]int           // the number of each cell's last measured trial

	done    int
	began   time.Time // when the run began
	started time.Time // when the running trial started
}

// NewEstimate makes an estimate from the times of the run's measured trials. run may be nil.
func NewEstimate(plan []scenario.PlannedCell, run *record.Run) *TimeEstimate {
	e := &TimeEstimate{plan: plan, open: map[int]bool{}, began: time.Now(), spent: map[string]time.Duration{}, trials: map[string]int{}}
	order := lab.ManifestOrder(plan)
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
			break // later readers of the run will report the error
		}
		if r.Trial < len(e.cells) {
			e.noteTime(r.Trial, time.Duration(r.TookNS))
		}
	}
	return e
}

const (
	// trialOverhead is about the time to start and end two processes.
	trialOverhead = 600 * time.Millisecond
	// typicalCallTime is the time per call in a loop that makes a fixed number of requests,
	// usualByte the time per byte, and usualConnection the time to open a connection.
	typicalCallTime    = 40 * time.Microsecond
	typicalByteTime    = 3 * time.Nanosecond
	typicalConnectTime = 300 * time.Microsecond
	// typicalSearchSteps is the number of steps of a search.
	typicalSearchSteps = 45
)

// expectedTime returns the time that a trial should take on a usual machine.
func expectedTime(c scenario.Cell) time.Duration {
	window := time.Duration(c.Load.Duration)
	switch {
	case c.Load.Model == scenario.Search:
		window *= typicalSearchSteps
	case window == 0:
		requests := max(c.Load.Total, c.Load.Requests)
		if c.Load.Model == scenario.Closed && c.Load.Total == 0 {
			requests *= c.Clients
		}
		call := typicalCallTime + time.Duration(c.Size.Request+c.Size.Response)*typicalByteTime
		if c.Connection.Mode.PerRequest() {
			call += typicalConnectTime
		}
		work, _ := workloads.SimulatedWork(c.Workload)
		wait := work + c.Network.RoundTrip() // a client's wait per answer
		window = max(time.Duration(requests)*call, time.Duration(requests/max(1, c.Clients))*wait)
	}
	warmUp := min(time.Duration(c.WarmUp.AtMost), 2*time.Duration(c.WarmUp.AtLeast))
	return trialOverhead + warmUp + window
}

// Observe follows the events of the run.
func (e *TimeEstimate) Observe(event live.Event) {
	switch event := event.(type) {
	case live.Begun:
		e.started = time.Now()
	case live.SetBack:
		e.noteMeasured(event.Record.Trial)
	case live.Ended: // without a start time, the record is of an earlier measurement
		delete(e.open, event.Record.Trial)
		e.done++
		if !e.started.IsZero() {
			e.noteMeasured(event.Record.Trial)
		}
	}
}

// noteMeasured records the time of a trial that has just ended.
func (e *TimeEstimate) noteMeasured(number int) {
	e.noteTime(number, time.Since(e.started))
	e.started = time.Time{}
}

func (e *TimeEstimate) noteTime(number int, took time.Duration) {
	cell := e.cells[number]
	e.spent[cell], e.trials[cell] = took, number
}

// A cellLikeness holds properties that similar cells share. Fields with zero values may differ.
type cellLikeness struct {
	part, stack string
	sizes       scenario.Payload
	clients     int
}

// likenessesOf returns the likenesses of a cell, from the most specific one to the one of all
// cells.
func likenessesOf(c scenario.Cell) []cellLikeness {
	return []cellLikeness{
		{part: c.Part, stack: c.Variant.Stack, sizes: c.Size},
		{part: c.Part, sizes: c.Size, clients: c.Clients},
		{part: c.Part},
		{},
	}
}

// Remaining estimates the time of the trials without a record. It does not include waits for a
// quiet machine.
func (e *TimeEstimate) Remaining() time.Duration {
	slower := e.slownessRatios()
	var sum time.Duration
	for number := range e.open {
		if took, ok := e.spent[e.cells[number]]; ok {
			sum += took
			continue
		}
		expected := float64(e.expected[number])
		for _, like := range likenessesOf(e.plan[number].Cell) {
			if times, known := slower[like]; known {
				expected *= times
				break
			}
		}
		sum += time.Duration(expected)
	}
	return sum
}

// slownessRatios returns the median ratio of measured to expected time for each likeness.
func (e *TimeEstimate) slownessRatios() map[cellLikeness]float64 {
	ratios := map[cellLikeness][]float64{}
	for cell, took := range e.spent {
		number := e.trials[cell]
		for _, like := range likenessesOf(e.plan[number].Cell) {
			ratios[like] = append(ratios[like], float64(took)/float64(max(1, e.expected[number])))
		}
	}
	medians := map[cellLikeness]float64{}
	for like, all := range ratios {
		slices.Sort(all)
		medians[like] = all[len(all)/2]
	}
	return medians
}

// DoneCount returns how many trials have a record.
func (e *TimeEstimate) DoneCount() int { return e.done }

// TrialCount returns how many trials the plan has.
func (e *TimeEstimate) TrialCount() int { return len(e.cells) }

// Elapsed returns the time since the estimate was made.
func (e *TimeEstimate) Elapsed() time.Duration { return time.Since(e.began) }

// OpenCellCount returns how many cells have trials without a record.
func (e *TimeEstimate) OpenCellCount() int {
	cells := map[string]bool{}
	for number := range e.open {
		cells[e.cells[number]] = true
	}
	return len(cells)
}

// RunsDirectory is the directory for runs whose directory the user does not name.
const RunsDirectory = "wirelab-runs"

// DefaultRunDirectory returns the directory for a run whose directory the user does not name.
func DefaultRunDirectory(name string, now time.Time) string {
	return filepath.Join(RunsDirectory, name+"-"+now.Format("20060102-150405"))
}

// Manifest makes the manifest for the run of a scenario. kept is the form of the scenario to store.
// The caller adds the tool, the command, the fleet and the warnings.
func Manifest(s, kept *scenario.Scenario, u *record.Until, started time.Time) (record.Manifest, error) {
	order := lab.ManifestOrder(Trials(s, u))
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

// A RunPreview says what a run would measure, and how long that would take.
type RunPreview struct {
	Title     string  `json:"title"`
	Trials    int     `json:"trials"`         // trials to measure
	Done      int     `json:"done,omitempty"` // trials that a continued run has already measured
	Cells     int     `json:"cells"`
	Seconds   float64 `json:"estimated_seconds"` // estimated time on a quiet machine
	Directory string  `json:"directory"`
	Looks     int     `json:"looks,omitempty"`       // 0: the run has no looks
	AtMost    int     `json:"trials_most,omitempty"` // trials of all looks
}

// PreviewRun returns the preview of a scenario's run. run is the run to continue, or nil.
func PreviewRun(s *scenario.Scenario, u *record.Until, run *record.Run, directory string) RunPreview {
	left := NewEstimate(Trials(s, u), run)
	r := RunPreview{
		Title: s.Title, Trials: left.TrialCount() - left.DoneCount(), Done: left.DoneCount(), Cells: left.OpenCellCount(),
		Seconds: left.Remaining().Seconds(), Directory: cmp.Or(directory, DefaultRunDirectory(s.Name, time.Now())),
	}
	if u != nil {
		r.Looks, r.AtMost = len(u.Looks), len(TrialsOfAllLooks(s, u))
	}
	return r
}

// These limits keep the reading of earlier runs short.
const (
	maxEarlierManifests = 50 // manifests read per folder
	maxEarlierRead      = 5  // runs whose records are read
	maxEarlierBytes     = 16 << 20
)

// DescribeOutlook says which differences a plan could find, if the noise is as in earlier runs. It
// returns "" if the plan compares nothing.
func DescribeOutlook(cells []record.Cell, until *record.Until, folders []string) string {
	forecast := compare.NewForecast(cells, until)
	if forecast == nil {
		return ""
	}
	tried := map[bool]int{}
	for _, run := range earlierRunsHere(cells, folders) {
		tried[run.isSame]++
		if tried[run.isSame] <= maxEarlierRead && (run.isSame && !forecast.HasEnoughRuns() || !run.isSame && forecast.NeedsOtherRuns()) {
			addNoise(forecast, run.directory)
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
	return advice.DescribePower(p, forecast.Repeats(), where)
}

type earlierRun struct {
	directory string
	started   time.Time
	isSame    bool // it has cells of the plan
}

// earlierRunsHere returns the runs of this machine, the newest first. Runs with cells of the plan
// come before all others.
func earlierRunsHere(cells []record.Cell, folders []string) (runs []earlierRun) {
	planned := map[string]bool{}
	for _, cell := range cells {
		planned[cell.Key()] = true
	}
	here := host.Describe()
	for _, folder := range folders {
		for _, directory := range record.Newest(folder, maxEarlierManifests, maxEarlierBytes) {
			var there host.Info
			m, err := record.ReadManifest(directory)
			if err != nil || json.Unmarshal(m.Host, &there) != nil || !here.MayBeSameMachine(&there) {
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

// addNoise adds a run's noise to the forecast, if the run can be read.
func addNoise(forecast *compare.Forecast, directory string) {
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
	forecast.AddRun(directory, &run.Manifest, records)
}
