package analysis

import (
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A GateOutcome is the result of a condition in a cell.
type GateOutcome string

// The outcomes. A gate is kept or breached only if the whole interval of its figure lies on one
// side of the limit. A figure without an interval decides by itself.
const (
	GateKept     GateOutcome = "kept"
	GateBreached GateOutcome = "breached"
	GateOpen     GateOutcome = "cannot tell" // the interval contains the limit, or the figure is unknown
)

// A GateFinding is the outcome of a condition in one cell, with the figure.
type GateFinding struct {
	Gate    string        `json:"gate"` // the condition as the user wrote it
	Cell    string        `json:"cell"`
	Clients int           `json:"-"`
	Outcome GateOutcome   `json:"outcome" jsonschema:"enum=kept,enum=breached,enum=cannot tell"`
	Passes  bool          `json:"passes,omitempty"`                                                                   // the outcome is "cannot tell", and passes because of --undecided pass
	Unit    Unit          `json:"unit" jsonschema:"enum=us,enum=rps,enum=requests,enum=share,enum=ratio,enum=change"` // unit of limit and found
	Limit   float64       `json:"limit"`
	Found   matrix.Figure `json:"found"`         // the measured figure or change; null if unknown
	Windows int           `json:"windows"`       // number of windows that the figure is from
	Why     string        `json:"why,omitempty"` // why the outcome is "cannot tell", and what to do; absent for other outcomes
	Change  *Difference   `json:"-"`             // the judged change; nil for a figure
}

// WorstOutcome returns the outcome of all findings together: breached if one is breached, else
// cannot tell if one cannot tell and does not pass, else kept.
func WorstOutcome(findings []GateFinding) GateOutcome {
	worst := GateKept
	for _, f := range findings {
		switch {
		case f.Outcome == GateBreached:
			return GateBreached
		case f.Outcome == GateOpen && !f.Passes:
			worst = GateOpen
		}
	}
	return worst
}

// JudgeConditions judges the conditions on failed calls first, then those on other figures, and
// then the conditions on changes in the cells that both runs share.
func JudgeConditions(conditions []Condition, s *Summary, since *Diff) []GateFinding {
	var failures, figures, changes []GateFinding
	for i := range s.Cells {
		cell := &s.Cells[i]
		for _, c := range conditions {
			switch {
			case c.IsChange() && (since == nil || !since.judgesChange(cell)):
			case c.IsChange():
				changes = append(changes, c.judgeCellChange(cell, since))
			case c.of.ofFailures:
				failures = append(failures, c.Judge(cell))
			default:
				figures = append(figures, c.Judge(cell))
			}
		}
	}
	return slices.Concat(failures, figures, changes)
}

// Judge judges the figure of a cell by its interval, or by the figure itself if there is no
// interval, as for one window. Failed calls are exact counts, and also judged in invalid windows: a
// service whose calls all fail has no valid window.
func (c Condition) Judge(cell *matrix.Cell) GateFinding {
	f := GateFinding{Gate: c.Text, Cell: cell.Key, Clients: cell.Clients, Unit: c.Unit, Limit: c.Limit, Windows: cell.Valid, Found: unknownFigure}
	if !cell.IsValid() && !(c.of.ofFailures && cell.Refused > 0) {
		return f.open("the " + cell.Kind().Noun + " has no valid window: see its failed checks")
	}
	if c.of.ofFailures {
		f.Windows = max(cell.Valid, cell.Refused)
	}
	if found := c.of.of(cell); found != nil {
		f.Found = *found
		if c.of.unit == Requests && c.Unit == Share {
			f.Found.Value /= float64(max(1, c.of.outOfIn(cell)))
		}
	}
	if math.IsNaN(f.Found.Value) {
		return f.open(c.of.reasonUnknown())
	}
	return c.judgeFound(f)
}

func (f GateFinding) open(why string) GateFinding {
	f.Outcome, f.Why = GateOpen, why
	return f
}

// judgeFound judges a known figure. The limit itself is kept.
func (c Condition) judgeFound(f GateFinding) GateFinding {
	low, high := f.Found.Value, f.Found.Value
	if i := f.Found.Interval; i != nil {
		low, high = i.Low, i.High
	}
	switch beyond := c.isBeyond(low); {
	case beyond != c.isBeyond(high):
		return f.open("the interval contains the limit: " + f.moreRepeats())
	case beyond:
		f.Outcome = GateBreached
	default:
		f.Outcome = GateKept
	}
	return f
}

// moreRepeats says how many repeats would probably bring the interval to one side of the limit.
func (f GateFinding) moreRepeats() string {
	spread := 0.0
	if f.Change != nil {
		spread = f.Change.spread
	}
	distance := math.Abs(math.Log(f.Found.Value / f.Limit))
	needed := repeatsFor(distance, f.Found, spread, f.Windows)
	switch {
	case spread >= distance:
		return "the machine itself may have changed by as much between the runs: measure both on a quiet machine, for longer, one soon after the other"
	case needed == 0:
		return "the figure is so close to the limit that more repeats may not decide; choose another limit"
	}
	return fmt.Sprintf("measure more repeats, for example --repeat %d", needed)
}

func (c Condition) judgeCellChange(cell *matrix.Cell, since *Diff) GateFinding {
	f := GateFinding{Gate: c.Text, Cell: cell.Key, Unit: Relative, Limit: c.Limit, Found: unknownFigure}
	f = f.open("one of the runs has no valid window with this figure")
	if d := since.Difference(cell, c.of.metric()); d != nil {
		f = c.JudgeChange(*d)
	}
	f.Clients, f.Windows = cell.Clients, cell.Valid
	return f
}

// JudgeChange judges a change of the condition's figure. A change that breaches its limit must also
// be proven, corrected for the number of compared cells, unless no change at all is a breach.
func (c Condition) JudgeChange(d Difference) GateFinding {
	f := GateFinding{Gate: c.Text, Cell: d.Cell, Unit: Relative, Limit: c.Limit, Found: d.Ratio, Windows: d.AfterTrials, Change: &d}
	if min(d.BeforeTrials, d.AfterTrials) < matrix.LeastTrials || d.Ratio.Interval == nil {
		return f.open(fmt.Sprintf("a change needs %d valid windows in each run; the earlier run has %d, the later run %d: measure more repeats", matrix.LeastTrials, d.BeforeTrials, d.AfterTrials))
	}
	if d.incomparable != "" {
		return f.open(d.incomparable)
	}
	f = c.judgeFound(f)
	if f.Outcome == GateBreached && !c.isBeyond(1) && !d.isReal() {
		return f.open("this change may be chance, corrected for the number of compared cells: measure more repeats, or fewer cells")
	}
	return f
}

// CheckCells returns an error if the earlier run (baseline is its directory) has none of the planned
// cells. Without an earlier run it returns nil.
func CheckCells(baseline string, before *Summary, planned []record.Cell) error {
	if before == nil || slices.ContainsFunc(planned, before.HasCell) {
		return nil
	}
	has := "none"
	if len(before.Cells) > 0 {
		has = before.Cells[0].Key
	}
	return fmt.Errorf("--baseline: %s has none of the planned %ss (its first one is %s): use the flags of that run", baseline, planned[0].Kind().Noun, has)
}

// CheckWindows returns an error if the runs have too few windows to judge a change in any cell. before
// is nil if the two versions are measured together.
func (c Condition) CheckWindows(baseline string, before *Summary, repeats int) error {
	needs := fmt.Sprintf("--fail-if: %q: a change needs %d windows in each run", c.Text, matrix.LeastTrials)
	switch {
	case repeats < matrix.LeastTrials:
		return fmt.Errorf("%s: add --repeat %d", needs, matrix.LeastTrials)
	case before == nil || len(before.Cells) == 0 || slices.ContainsFunc(before.Cells, func(c matrix.Cell) bool { return c.Valid >= matrix.LeastTrials }):
		return nil
	}
	first := before.Cells[0]
	return fmt.Errorf("%s, but %s has only %d valid windows of %s: measure that run again with --repeat %d", needs, baseline, first.Valid, first.Key, matrix.LeastTrials)
}
