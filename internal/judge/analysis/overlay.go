package analysis

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// RunOption is the option that tells the variants of overlaid runs apart.
const RunOption = "run"

// Overlay lays runs over each other: the cells of all, whose variants bear the name of their
// run as an option, and how each run differs from the first. It holds what can be seen of
// cells side by side. The rest, from claims to call stacks, is in each run's own summary.
func Overlay(names []string, runs []*Summary) (*Summary, error) {
	first := runs[0]
	over := &Summary{
		Name: strings.Join(names, " beside "), Title: strings.Join(names, " beside "), Started: first.Started, Status: first.Status,
		Overlaid: runs, Report: first.Report, Declared: first.Declared,
	}
	var variants []string
	place := map[string]int{} // of a run's variant among those
	for i, run := range runs {
		over.Planned, over.Done, over.Invalid, over.Failed = over.Planned+run.Planned, over.Done+run.Done, over.Invalid+run.Invalid, over.Failed+run.Failed
		for _, warning := range run.Warnings {
			over.Warnings = append(over.Warnings, names[i]+": "+warning)
		}
		for _, c := range run.Cells {
			variant, err := ofRun(c.Variant, names[i])
			if err != nil {
				return nil, err
			}
			if !slices.Contains(variants, c.Variant) {
				variants = append(variants, c.Variant)
			}
			place[variant] = slices.Index(variants, c.Variant)
			c.Variant, c.Key = variant, fmt.Sprintf("%d/%s", i, c.Key)
			over.Cells = append(over.Cells, c)
		}
		if i == 0 {
			continue
		}
		if err := over.compareRuns(names[0], first, names[i], run); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(over.Cells, func(a, b matrix.Cell) int { return place[a.Variant] - place[b.Variant] })
	return over, nil
}

// ofRun returns a variant that bears the name of its run.
func ofRun(variant, run string) (string, error) {
	separator := ":"
	if strings.Contains(variant, separator) {
		separator = ","
	}
	v, err := scenario.ParseVariant(variant + separator + RunOption + "=" + run)
	return v.String(), err
}

// compareRuns adds the verdicts of [Differ] as comparisons of variants.
func (s *Summary) compareRuns(before string, earlier *Summary, after string, later *Summary) error {
	d, err := Differ(earlier, later)
	if err != nil { // they may still be looked at side by side
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s and %s are not compared: %v", before, after, err))
		return nil
	}
	for _, one := range d.Differences {
		at := one.of.after.Conditions()
		c := compare.Comparison{
			Part: at.Part, Place: at.Place, Load: at.Load, Metric: one.Metric, Pairs: min(one.BeforeTrials, one.AfterTrials),
			Ratio: one.Ratio, P: one.P, Verdict: one.Verdict, Margin: matrix.Margin,
		}
		if c.A, err = ofRun(one.of.after.Cell.Variant, after); err != nil {
			return err
		}
		if c.B, err = ofRun(one.of.before.Cell.Variant, before); err != nil {
			return err
		}
		s.Comparisons = append(s.Comparisons, c)
	}
	return nil
}
