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

// A TimeEstimate estimates the remaining time of a run. It adds up the times of the trials without
// a record. If a trial of the same cell has been measured, it uses the time of that trial.
// Otherwise it uses the expected time: the window, the warm-up and the start of two processes. It
// corrects the expected time by the ratio of measured to expected time, as a median over the most
// similar cells that have been measured (likenessesOf).
type TimeEstimate struct {
	plan     []scenario.PlannedCell
	expected []time.Duration          // expected time of each trial of the plan
	cells    []string                 // cell of each trial of the plan
	open     map[int]bool             // numbers of the trials without a record
	spent    map[string]time.Duration // by cell: time of the last measured trial
	trials   map[string]int           // by cell: number of the last measured trial

	done  int
	began time.Time // when the estimate was made
}

// NewEstimate makes an estimate. It uses the times of trials that run has measured; run may be nil.
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
			break // a later reader of the run will report the error
		}
		if r.Trial < len(e.cells) {
			e.noteTime(r.Trial, time.Duration(r.TookNS))
		}
	}
	return e
}

const (
	// trialOverhead is the approximate time for starting and ending two processes.
	trialOverhead = 600 * time.Millisecond
	// typicalCallTime is the approximate time of a small call.
	typicalCallTime    = 40 * time.Microsecond
	typicalByteTime    = 3 * time.Nanosecond
	typicalConnectTime = 300 * time.Microsecond
	// typicalSearchSteps is the approximate number of steps of a search for the highest rate.
	typicalSearchSteps = 45
)

// expectedTime returns the approximate time of a trial on a typical machine.
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
		wait := work + c.Network.RoundTrip() // the time between a client's requests
		window = max(time.Duration(requests)*call, time.Duration(requests/max(1, c.Clients))*wait)
	}
	warmUp := min(time.Duration(c.WarmUp.AtMost), 2*time.Duration(c.WarmUp.AtLeast))
	return trialOverhead + warmUp + window
}

// Observe updates the estimate when a trial ends.
func (e *TimeEstimate) Observe(event live.Event) {
	ended, isEnd := event.(live.Ended)
	if !isEnd {
		return
	}
	delete(e.open, ended.Record.Trial)
	e.done++
	e.noteTime(ended.Record.Trial, time.Duration(ended.Record.TookNS))
}

func (e *TimeEstimate) noteTime(number int, took time.Duration) {
	cell := e.cells[number]
	e.spent[cell], e.trials[cell] = took, number
}

// A cellLikeness is a set of properties that similar cells share. A zero value means "any value".
type cellLikeness struct {
	part, stack string
	sizes       scenario.Payload
	clients     int
}

// likenessesOf returns the likenesses of a cell, from the most specific to the most general.
func likenessesOf(c scenario.Cell) []cellLikeness {
	return []cellLikeness{
		{part: c.Part, stack: c.Variant.Stack, sizes: c.Size},
		{part: c.Part, sizes: c.Size, clients: c.Clients},
		{part: c.Part},
		{},
	}
}

// HasAnchor reports whether a run has enough repeats to be compared with another run by its anchor.
func HasAnchor(trials []scenario.PlannedCell) bool {
	return slices.ContainsFunc(trials, func(t scenario.PlannedCell) bool { return t.Repeat >= minRepeats })
}

// Remaining estimates how long the trials without a record will take, and the anchor beside them.
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
	if HasAnchor(e.plan) {
		sum += lab.AnchorTime(float64(len(e.open))/float64(len(e.plan)), sum)
	}
	return sum
}

// slownessRatios returns, for each likeness, the median of measured time divided by expected time.
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

// DoneCount returns the number of trials that have a record.
func (e *TimeEstimate) DoneCount() int { return e.done }

// TrialCount returns the number of trials in the plan.
func (e *TimeEstimate) TrialCount() int { return len(e.cells) }

// Elapsed returns the time since the estimate was made.
func (e *TimeEstimate) Elapsed() time.Duration { return time.Since(e.began) }

// OpenCellCount returns the number of cells that have a trial without a record.
func (e *TimeEstimate) OpenCellCount() int {
	cells := map[string]bool{}
	for number := range e.open {
		cells[e.cells[number]] = true
	}
	return len(cells)
}

// DefaultRunDirectory returns the default directory for a new run.
func DefaultRunDirectory(name string, now time.Time) string {
	return filepath.Join(record.RunsFolder, name+"-"+now.Format("20060102-150405"))
}

// Manifest makes the manifest of a run of scenario s. The caller adds the tool, the command, the
// fleet and the warnings.
func Manifest(s *scenario.Scenario, u *record.Until, started time.Time) (record.Manifest, error) {
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
	}{{&m.Scenario, s}, {&m.Declarations, declarations(s.Parts)}, {&m.Host, host.Describe()}} {
		if *part.into, err = json.Marshal(part.value); err != nil {
			return m, fmt.Errorf("encode the manifest: %w", err)
		}
	}
	return m, nil
}

// A RunPreview tells what a run will measure, and how long the run will take.
type RunPreview struct {
	Title     string  `json:"title"`
	Trials    int     `json:"trials"`         // number of trials to measure
	Done      int     `json:"done,omitempty"` // trials that a resumed run has already measured
	Cells     int     `json:"cells"`
	Seconds   float64 `json:"estimated_seconds"` // on a quiet machine
	Directory string  `json:"directory"`
	Looks     int     `json:"looks,omitempty"`       // number of looks; 0 if the run has none
	AtMost    int     `json:"trials_most,omitempty"` // number of trials if the run takes all looks
}

// PreviewRun makes the preview of a run. If run is not nil, the preview is about resuming run.
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

// Limits on reading earlier runs, to keep the reading fast.
const (
	maxEarlierManifests = 50 // manifests to read per folder
	maxEarlierRead      = 5  // runs whose records are read
	maxEarlierBytes     = 16 << 20
)

// DescribeOutlook says in one sentence how small a difference a plan can find if noise is as high as
// in earlier runs, which it looks for in the folders. It returns "" if the plan compares nothing.
func DescribeOutlook(planned compare.Planned, folders []string) string {
	forecast := compare.NewForecast(planned)
	if forecast == nil {
		return ""
	}
	tried := map[bool]int{}
	for _, run := range earlierRunsHere(planned.Cells, folders) {
		tried[run.isSame]++
		if tried[run.isSame] <= maxEarlierRead && (run.isSame && !forecast.HasEnoughRuns() || !run.isSame && forecast.NeedsOtherRuns()) {
			addNoise(forecast, run.directory)
		}
	}
	return advice.DescribePower(forecast.Power(), forecast.Repeats())
}

type earlierRun struct {
	directory string
	started   time.Time
	isSame    bool // the run has cells of the plan
}

// earlierRunsHere returns the runs of this machine. Runs that have cells of the plan come first,
// and then newer runs before older ones.
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

// addNoise adds the noise of a run to the forecast. It ignores a run that it cannot read.
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
	forecast.AddRun(&run.Manifest, records)
}
