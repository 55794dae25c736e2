package analysis

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Diff compares a run with an earlier one, in the cells that both runs measured. The anchors of
// the runs show how much the machine itself changed: every interval includes this spread between
// the runs. A verdict needs [matrix.LeastTrials] valid trials of each run.
type Diff struct {
	Before       string         `json:"before"` // path of the earlier run
	After        string         `json:"after"`
	Differences  []Difference   `json:"differences"`    // by cell, then by metric
	OnlyInBefore []string       `json:"only_in_before"` // cells that only the earlier run has
	OnlyInAfter  []string       `json:"only_in_after"`  // cells that only the later run has
	Invalid      []string       `json:"invalid"`        // cells without a valid trial in one of the runs
	Doubts       []string       `json:"doubts"`         // reasons for not trusting the comparison
	Anchor       []AnchorChange `json:"anchor"`         // changes of the machine itself; empty if a run lacks an anchor

	Versions bool `json:"versions,omitempty"` // the two sides are versions of a service in one run, loaded by turns

	Noun    string    `json:"-"` // the user's word for a cell
	targets [2]string // addresses of the first cell's server in the earlier and in the later run
}

// A Difference compares one figure of one cell between two runs.
type Difference struct {
	Cell         string          `json:"cell"`
	Metric       string          `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`
	Before       float64         `json:"before"`                                                                                          // the earlier run's figure, in microseconds; throughput in requests per second
	After        float64         `json:"after"`                                                                                           // the later run's figure, in the same unit
	BeforeTrials int             `json:"before_trials"`                                                                                   // valid trials of the earlier run
	AfterTrials  int             `json:"after_trials"`                                                                                    // valid trials of the later run
	Ratio        matrix.Figure   `json:"ratio"`                                                                                           // the later run's figure divided by the earlier run's figure
	P            float64         `json:"p" jsonschema:"nullable"`                                                                         // probability of such a ratio if the runs are equal, Holm-adjusted; null with too few trials
	Verdict      compare.Verdict `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=more,enum=less,enum=equivalent,enum=undecided"` // verdict on the later run
	Margin       float64         `json:"margin"`                                                                                          // smallest of 0.01, 0.02, 0.05 and 0.1 by which the runs differ at most; 0 if they may differ by more

	of           cellPair
	incomparable string  // why the runs cannot be compared; empty if they can
	spread       float64 // part of the interval's half width that is the spread between the runs, as a logarithm
}

// DiffMetrics lists the metrics in which runs are compared.
var DiffMetrics = []string{matrix.Mean, matrix.P99, matrix.Throughput, matrix.CPU}

// NewDiff compares two runs. It fails if they have no cell in common.
func NewDiff(before, after *Summary) (*Diff, error) {
	common, onlyBefore, onlyAfter := matchCells(before, after)
	if len(common) == 0 {
		return nil, noCommonCellError(before, after)
	}
	d := &Diff{Noun: common[0].after.Cell.Kind().Noun, Doubts: machineDoubts(before, after), OnlyInBefore: keysOf(onlyBefore), OnlyInAfter: keysOf(onlyAfter)}
	foreign := len(before.Foreign)+len(after.Foreign) > 0
	if foreign {
		d.Doubts = append(foreignDoubts(before, after, common), d.Doubts...)
	}
	d.targets = [2]string{common[0].before.Cell.Target, common[0].after.Cell.Target}
	sortCells(common)
	changes := map[bool]*AnchorChange{} // of the mean and, for true, of the CPU time
	for _, name := range []string{matrix.Mean, matrix.CPU} {
		change := newAnchorChange(name, before.Anchor, after.Anchor)
		if changes[name == matrix.CPU] = change; change != nil {
			d.Anchor = append(d.Anchor, *change)
		}
	}
	byCell := make([][]Difference, len(common))
	for _, name := range DiffMetrics {
		var f compare.Family
		metric := diffMetric(name, foreign)
		earlier, later := matrix.NewFit(before.points, metric), matrix.NewFit(after.points, metric)
		change := changes[name == matrix.CPU]
		incomparable := whyIncomparable(change, before, after)
		for i, c := range common {
			if !matrix.IsMeaningful(c.after.Cell.Load.Model, name) || !matrix.IsMeaningful(c.before.Cell.Load.Model, name) {
				continue
			}
			ratio, known := matrix.RatioOfRuns(later, c.after, earlier, c.before)
			if !known {
				continue // one of the runs did not measure the figure
			}
			at := len(byCell[i])
			byCell[i] = append(byCell[i], Difference{
				of: c, Cell: c.key(), Metric: name, BeforeTrials: earlier.Trials(c.before), AfterTrials: later.Trials(c.after),
				Before: earlier.Figure(c.before).Value, After: later.Figure(c.after).Value,
				P: math.NaN(), Verdict: compare.Undecided, Ratio: matrix.Figure{Value: ratio.Value}, incomparable: incomparable,
			})
			f.Add(ratio, func(verdict stats.Comparison) {
				c := &byCell[i][at]
				c.P, c.Verdict, c.Margin = verdict.P, compare.TranslateVerdict(name, verdict.Verdict), verdict.Margin
				c.Ratio = matrix.FigureOf(verdict.Ratio)
				if change != nil {
					c.widen(change.spread)
				}
			})
		}
		f.Judge()
	}
	for i, c := range common {
		if len(byCell[i]) == 0 {
			d.Invalid = append(d.Invalid, c.key())
		}
	}
	d.Differences = slices.Concat(byCell...)
	for _, one := range d.Differences {
		if one.incomparable != "" && !foreign { // the doubts name another program already
			d.Doubts = lists.AppendNew(d.Doubts, one.incomparable)
		}
	}
	if old, now := d.Targets(); hostOf(old) != hostOf(now) {
		d.Doubts = append(d.Doubts, fmt.Sprintf("the runs called servers on different hosts: %s before, %s after", old, now))
	}
	return d, nil
}

// widen adds the spread between the runs to the interval. A verdict that the wider interval does not
// support becomes undecided.
func (d *Difference) widen(spread float64) {
	i := d.Ratio.Interval
	if i == nil {
		return
	}
	value := math.Log(d.Ratio.Value)
	half := math.Hypot(logHalf(d.Ratio), spread)
	d.spread = spread
	d.Ratio.Interval = &matrix.Interval{Low: math.Exp(value - half), High: math.Exp(value + half), Confidence: i.Confidence}
	d.P = max(d.P, 2*distuv.UnitNormal.CDF(-math.Abs(value)*normalQuantile/half)) // one spread hits all cells: no correction for their number
	d.Margin = stats.MarginAround(d.Ratio.Interval.Low, d.Ratio.Interval.High)
	switch {
	case d.isReal() && d.P < 1-matrix.Confidence:
	case d.Margin > 0:
		d.Verdict = compare.Equivalent
	default:
		d.Verdict = compare.Undecided
	}
}

// RepeatsToHalve returns the median half width of the intervals of means, as a share, and about how
// many repeats of each run would halve it: 0 if there are too many, or no intervals.
func (d *Diff) RepeatsToHalve() (now float64, repeats int) {
	means := slices.DeleteFunc(slices.Clone(d.Differences), func(one Difference) bool { return one.Metric != matrix.Mean || one.Ratio.Interval == nil })
	if len(means) == 0 {
		return 0, 0
	}
	slices.SortFunc(means, func(a, b Difference) int { return cmp.Compare(logHalf(a.Ratio), logHalf(b.Ratio)) })
	usual := means[len(means)/2]
	half := logHalf(usual.Ratio)
	return math.Expm1(half), repeatsFor(half/2, usual.Ratio, usual.spread, min(usual.BeforeTrials, usual.AfterTrials))
}

// repeatsFor returns about how many repeats make the half width of a figure's interval narrow, as a
// logarithm, or 0 if there are too many. It shrinks with the square root of their number n,
// except for the spread between runs.
func repeatsFor(narrow float64, of matrix.Figure, spread float64, n int) int {
	const most = 100
	half := logHalf(of)
	needed := math.Ceil(float64(n) * (half*half - spread*spread) / (narrow*narrow - spread*spread))
	if narrow <= spread || !(needed <= most) {
		return 0
	}
	return max(n+1, int(needed))
}

// logHalf returns the half width of a ratio's interval, as a logarithm.
func logHalf(of matrix.Figure) float64 { return math.Log(of.Interval.High/of.Interval.Low) / 2 }

// sortCells sorts the cells of two runs by part, in the order of the scenario, and then by place.
func sortCells(common []cellPair) {
	part := map[string]int{} // position of each part in the scenario
	for i, c := range slices.Backward(common) {
		part[c.after.Cell.Part] = i
	}
	slices.SortStableFunc(common, func(x, y cellPair) int {
		a, b := x.after.Cell, y.after.Cell
		return cmp.Or(cmp.Compare(part[a.Part], part[b.Part]), a.Place.Compare(b.Place))
	})
}

// isReal reports whether the runs certainly differ.
func (d Difference) isReal() bool {
	return d.Verdict != compare.Undecided && d.Verdict != compare.Equivalent
}

// HasCell reports whether the run measured a cell. It ignores server addresses.
func (s *Summary) HasCell(c record.Cell) bool {
	return slices.ContainsFunc(s.points, func(p *matrix.Point) bool { return withoutTarget(p.Cell) == withoutTarget(c) })
}

// withoutTarget returns a cell without the address of a server that wirelab did not start.
func withoutTarget(c record.Cell) record.Cell {
	c.Target = ""
	return c
}

func firstOrNone(cells []string) string {
	if len(cells) == 0 {
		return "none"
	}
	return cells[0]
}

func machineDoubts(before, after *Summary) []string {
	var doubts []string
	for _, fact := range []struct{ key, name string }{
		{"cpu_model", "processor"}, {"cores", "number of cores"}, {"kernel", "kernel"}, {"memory_bytes", "memory"},
	} {
		a, b := before.Host[fact.key], after.Host[fact.key]
		if a != nil && b != nil && fmt.Sprint(a) != fmt.Sprint(b) {
			doubts = append(doubts, fmt.Sprintf("the %s differs: %v before, %v after", fact.name, a, b))
		}
	}
	return doubts
}

// Targets returns the addresses of the called servers, if wirelab did not start them.
func (d *Diff) Targets() (before, after string) { return d.targets[0], d.targets[1] }

// hostOf returns an address without its port, because a test's server often has a random port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// RunOption is the option that an overlay adds to each variant. Its value is the name of the run.
const RunOption = "run"

// Overlay joins the cells of several runs, and compares each run with the first. Each variant gets
// the name of its run as an option. It does not join other results, such as claims.
func Overlay(names []string, runs []*Summary) (*Summary, error) {
	first := runs[0]
	over := &Summary{
		Name: strings.Join(names, " beside "), Title: strings.Join(names, " beside "), Started: first.Started, Status: first.Status,
		Overlaid: runs, Report: first.Report, Declared: first.Declared,
	}
	var variants []string
	place := map[string]int{} // position of each variant, by its name with the run
	for i, run := range runs {
		over.Planned, over.Done, over.Passes = over.Planned+run.Planned, over.Done+run.Done, over.Passes+run.Passes
		over.Invalid, over.Failed = over.Invalid+run.Invalid, over.Failed+run.Failed
		for _, warning := range run.Warnings {
			over.Warnings = append(over.Warnings, names[i]+": "+warning)
		}
		for _, c := range run.Cells {
			variant, err := variantOfRun(c.Variant, names[i])
			if err != nil {
				return nil, err
			}
			variants = lists.AppendNew(variants, c.Variant)
			place[variant] = slices.Index(variants, c.Variant)
			c.Variant, c.Key = variant, fmt.Sprintf("%d/%s", i, c.Key)
			over.Cells = append(over.Cells, c)
		}
		if i == 0 {
			continue
		}
		if err := over.addComparisons(names[0], first, names[i], run); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(over.Cells, func(a, b matrix.Cell) int { return place[a.Variant] - place[b.Variant] })
	return over, nil
}

func variantOfRun(variant, run string) (string, error) {
	separator := ":"
	if strings.Contains(variant, separator) {
		separator = ","
	}
	v, err := scenario.ParseVariant(variant + separator + RunOption + "=" + run)
	return v.String(), err
}

// addComparisons adds the verdicts of [NewDiff] as comparisons of variants.
func (s *Summary) addComparisons(before string, earlier *Summary, after string, later *Summary) error {
	d, err := NewDiff(earlier, later)
	if err != nil { // the overlay shows both runs without comparing them
		s.Warnings = append(s.Warnings, fmt.Sprintf("the runs %s and %s cannot be compared: %v", before, after, err))
		return nil
	}
	for _, one := range d.Differences {
		at := one.of.after.Conditions()
		c := compare.Comparison{
			Part: at.Part, Place: at.Place, Load: at.Load, Metric: one.Metric, Pairs: min(one.BeforeTrials, one.AfterTrials),
			Ratio: one.Ratio, P: one.P, Verdict: one.Verdict, Margin: one.Margin,
		}
		if c.A, err = variantOfRun(one.of.after.Cell.Variant, after); err != nil {
			return err
		}
		if c.B, err = variantOfRun(one.of.before.Cell.Variant, before); err != nil {
			return err
		}
		s.Comparisons = append(s.Comparisons, c)
	}
	return nil
}
