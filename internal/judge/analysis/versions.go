package analysis

import (
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// NewVersionDiff returns the comparisons of two versions of a service in one run as differences: the
// base is before, the head is after. It returns nil if the run does not compare versions. The
// versions took turns, so the differences have no spread between runs and no anchor.
func NewVersionDiff(s *Summary) *Diff {
	d := &Diff{Before: record.BaseVersion, After: record.HeadVersion, Versions: true, Noun: "load"}
	fits := map[string]*matrix.Fit{}
	for i := range s.Comparisons {
		c := &s.Comparisons[i]
		a, b := c.Points()
		if a == nil || a.Cell.Version() == "" || b.Cell.Version() == "" {
			continue
		}
		ratio, verdict := c.Ratio, c.Verdict
		if a.Cell.Version() == record.BaseVersion {
			a, b = b, a
			ratio, verdict = ratio.Inverse(), verdict.Opposite()
		}
		fit := fits[c.Metric]
		if fit == nil {
			fit = matrix.NewFit(s.points, c.Metric)
			fits[c.Metric] = fit
		}
		d.targets = [2]string{b.Cell.Target, a.Cell.Target}
		d.Differences = append(d.Differences, Difference{
			of: cellPair{before: b, after: a}, Cell: keyOf(a), Metric: c.Metric,
			Before: fit.Figure(b).Value, After: fit.Figure(a).Value, BeforeTrials: c.Pairs, AfterTrials: c.Pairs,
			Ratio: ratio, P: c.P, Verdict: verdict, Margin: c.Margin,
		})
	}
	if len(d.Differences) == 0 && !slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return c.Version() != "" }) {
		return nil
	}
	return d
}

// judgesChange reports whether conditions on changes are judged in a cell: in a cell of both runs, or
// in a cell of the head if the run compares versions.
func (d *Diff) judgesChange(cell *matrix.Cell) bool {
	if d.Versions {
		return cell.Version() == record.HeadVersion
	}
	return !slices.Contains(d.OnlyInAfter, cell.Key)
}

// Difference returns the difference of a metric in a cell of the later run or the head, or nil.
func (d *Diff) Difference(cell *matrix.Cell, metric string) *Difference {
	i := slices.IndexFunc(d.Differences, func(one Difference) bool { return one.Metric == metric && one.of.after.Cell == cell.Cell })
	if i < 0 {
		return nil
	}
	return &d.Differences[i]
}

// UndecidedChanges returns a function that reports whether a condition on a change between the versions
// cannot be told yet. It returns nil if there is no such condition.
func UndecidedChanges(conditions []Condition, m *record.Manifest) func(JudgedTrials) bool {
	changes := slices.DeleteFunc(slices.Clone(conditions), func(c Condition) bool { return !c.IsChange() })
	if len(changes) == 0 {
		return nil
	}
	return func(judged JudgedTrials) bool {
		s, err := Summarize(m, judged, nil)
		return err == nil && slices.ContainsFunc(JudgeConditions(changes, s, NewVersionDiff(s)), func(f GateFinding) bool { return f.Outcome == GateOpen })
	}
}
