package insight

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Facts holds figures of a cell's measured trials, which have no probe. Figures are null if not measured.
type Facts struct {
	Trials      int      `json:"trials"`                        // trials with a record
	Valid       int      `json:"valid_trials"`                  // trials with times that can be compared
	Mean        *float64 `json:"mean_us" jsonschema:"nullable"` // mean time of a call, also of invalid trials if no trial is valid
	InFlight    *float64 `json:"in_flight" jsonschema:"nullable"`
	Packets     *float64 `json:"packets" jsonschema:"nullable"`     // packets per call, in both directions
	Retransmits *float64 `json:"retransmits" jsonschema:"nullable"` // retransmits per call
	Opened      *float64 `json:"opened" jsonschema:"nullable"`      // connections opened per call
	Connections *float64 `json:"connections" jsonschema:"nullable"` // number of connections that the calls share
	Others      *float64 `json:"others" jsonschema:"nullable"`      // mean number of CPUs that other programs used
	Client      EndFacts `json:"client"`
	Server      EndFacts `json:"server"`
}

// EndFacts holds figures of one end's process, from measured trials.
type EndFacts struct {
	CPU       *float64 `json:"cpu_us" jsonschema:"nullable"`       // CPU time per call
	Collector *float64 `json:"collector_us" jsonschema:"nullable"` // CPU time per call of Go's garbage collector
	Waited    *float64 `json:"waited_us" jsonschema:"nullable"`    // time per call for which threads were ready but had no CPU, summed over threads
	Busy      *float64 `json:"busy_share" jsonschema:"nullable"`   // busy share of the end's CPUs
	CPUs      []int    `json:"cpus"`                               // CPUs that the process may use; empty if it was not pinned
	Quota     *float64 `json:"quota_cpus" jsonschema:"nullable"`   // number of CPUs that its control groups allow; null if there is no limit
	Nice      int      `json:"nice"`                               // priority: above 0, other processes come first

	collectorError float64 // standard error of Collector
}

// A CellOption is an option of a cell: of its variant, its workload, its link or its connections.
type CellOption struct {
	Key   string `json:"key"`   // name of the option, as in gogc
	Value string `json:"value"` // value as it was written
}

// connectionSetting is the key of the connection mode.
const connectionSetting = "conn"

// settingsOf lists a cell's settings, sorted by key.
func settingsOf(c record.Cell) []CellOption {
	var all []CellOption
	add := func(text string) {
		for option := range strings.SplitSeq(text, ",") {
			if key, value, is := strings.Cut(option, "="); is && key != record.VersionOption { // a version is only a name
				all = append(all, CellOption{key, value})
			}
		}
	}
	_, options, _ := strings.Cut(c.Variant, ":")
	add(options)
	_, options, _ = strings.Cut(c.Workload, ":")
	add(options)
	add(c.Network.Link)
	if !slices.ContainsFunc(all, func(s CellOption) bool { return s.Key == connectionSetting }) {
		all = append(all, CellOption{connectionSetting, c.Connection})
	}
	if c.Unpinned {
		all = append(all, CellOption{"unpinned", "true"})
	}
	slices.SortStableFunc(all, func(a, b CellOption) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// factsOf returns the facts of the measured trials of a cell.
func factsOf(p *matrix.Point) Facts {
	times, counts, bytes := p.TrialsWith(record.Times), p.TrialsWith(record.Counts), p.TrialsWith(record.Bytes)
	cpu := p.TrialsWith(record.CPUTime)
	for _, trials := range []*[]matrix.Trial{&times, &cpu} {
		if len(*trials) == 0 {
			*trials = p.MeasuredTrials() // figures of invalid trials still tell what happened
		}
	}
	known := func(trials []matrix.Trial, of matrix.Metric) *float64 {
		if f := matrix.KnownFigure(trials, of); f != nil {
			return &f.Value
		}
		return nil
	}
	ofTraffic := func(of func(*record.Traffic) float64) *float64 {
		return known(bytes, func(t matrix.Trial) float64 {
			if t.Traffic == nil || t.Completed == 0 {
				return math.NaN()
			}
			return of(t.Traffic) / matrix.RequestsSeen(t)
		})
	}
	return Facts{
		Trials: len(p.Trials), Valid: len(p.TrialsWith(record.Times)),
		Mean:     known(times, meanResponse),
		InFlight: known(times, func(t matrix.Trial) float64 { return t.InFlight }),
		Packets: ofTraffic(func(t *record.Traffic) float64 {
			return matrix.Number(t.SentPackets) + matrix.Number(t.ReceivedPackets)
		}),
		Retransmits: ofTraffic(func(t *record.Traffic) float64 { return matrix.Number(t.Retransmits) }),
		Opened:      known(counts, func(t matrix.Trial) float64 { return matrix.PerCall(t, float64(t.Connections.During)) }),
		Connections: known(counts, func(t matrix.Trial) float64 { return float64(t.Connections.Want) }),
		Others:      known(times, func(t matrix.Trial) float64 { return matrix.Number(t.Host.OthersCPUs) }),
		Client:      endFacts(cpu, times, matrix.ClientOf),
		Server:      endFacts(cpu, times, matrix.ServerOf),
	}
}

// meanResponse returns the mean response time in microseconds, whatever the checks say.
func meanResponse(t matrix.Trial) float64 {
	times := cmp.Or(t.Response, &t.Service)
	if times.Count == 0 {
		return math.NaN()
	}
	return float64(times.Sum) / float64(times.Count) / 1e3
}

// endFacts returns the facts of one end. CPU time is from the trials cpu, and times are from trials.
func endFacts(cpu, trials []matrix.Trial, of func(matrix.Trial) record.Process) EndFacts {
	var facts EndFacts
	perCall := func(trials []matrix.Trial, ns func(record.Process) *int64) *matrix.Figure {
		return matrix.KnownFigure(trials, func(t matrix.Trial) float64 { return matrix.PerCall(t, matrix.Number(ns(of(t)))) / 1e3 })
	}
	value := func(of matrix.Metric) *float64 {
		if f := matrix.KnownFigure(trials, of); f != nil {
			return &f.Value
		}
		return nil
	}
	if used := matrix.KnownFigure(cpu, func(t matrix.Trial) float64 {
		p := of(t)
		return matrix.PerCall(t, matrix.Number(p.UserNS)+matrix.Number(p.SystemNS)) / 1e3
	}); used != nil {
		facts.CPU = &used.Value
	}
	if collector := perCall(cpu, func(p record.Process) *int64 { return p.GCCPUNS }); collector != nil {
		facts.Collector, facts.collectorError = &collector.Value, standardError(collector, len(cpu))
	}
	if waited := perCall(trials, func(p record.Process) *int64 { return p.WaitedNS }); waited != nil {
		facts.Waited = &waited.Value
	}
	facts.Busy = value(func(t matrix.Trial) float64 { return matrix.Number(of(t).Busy) })
	if len(trials) == 0 {
		return facts
	}
	first := of(trials[0])
	facts.CPUs, facts.Quota, facts.Nice = first.CPUs, first.QuotaCPUs, first.Nice
	if allowed := len(first.AllowedCPUs); len(facts.CPUs) == 0 && allowed > 0 { // a user's service was not pinned by wirelab
		facts.CPUs = first.AllowedCPUs
		facts.Busy = value(func(t matrix.Trial) float64 {
			p := of(t)
			return (matrix.Number(p.UserNS) + matrix.Number(p.SystemNS)) / t.AtWorkNS() / float64(allowed)
		})
	}
	return facts
}

// standardError returns the standard error of a figure over trials, or a quarter of the figure if they are
// too few to tell.
func standardError(f *matrix.Figure, trials int) float64 {
	if f.Interval == nil || trials < matrix.LeastTrials {
		return math.Abs(f.Value) / 4
	}
	return (f.Interval.High - f.Interval.Low) / 2 / stats.NewStudent(float64(trials-1)).Quantile((1+f.Interval.Confidence)/2)
}
