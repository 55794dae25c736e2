package study

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Gather puts the trials of equal cells together. Points are sorted by the place of their
// variant in the scenario, since the plan is shuffled, and then by the plan.
func Gather(s *Study, records []*record.Record) ([]*matrix.Point, error) {
	planned := slices.Clone(records)
	slices.SortStableFunc(planned, func(a, b *record.Record) int { return cmp.Compare(a.Trial, b.Trial) })
	var points []*matrix.Point
	at := map[record.Cell]*matrix.Point{}
	for _, r := range planned {
		p := at[r.Cell]
		if p == nil {
			p = &matrix.Point{Cell: r.Cell, Level: s.Level, Limits: s.Limits}
			p.WithoutConnections = s.withoutConnections(r.Cell.Variant)
			at[r.Cell] = p
			points = append(points, p)
		}
		if err := p.Add(r); err != nil {
			return nil, fmt.Errorf("trial %d, %s: %w", r.Trial, r.Cell.Key(), err)
		}
	}
	slices.SortStableFunc(points, func(a, b *matrix.Point) int { return cmp.Compare(s.Place[a.Cell.Variant], s.Place[b.Cell.Variant]) })
	return points, nil
}

// WithProbe returns the passes of a probe.
func WithProbe(passes []*record.Record, probe string) []*record.Record {
	return slices.DeleteFunc(slices.Clone(passes), func(r *record.Record) bool { return r.Probe != probe })
}

// SplitProfiled separates trials that were measured from those that were profiled, whose
// figures must not be used. A profiled trial that failed goes to the measured ones, so that
// its reason is shown.
func SplitProfiled(records []*record.Record) (measured, profiled []*record.Record) {
	for _, r := range records {
		if r.Probe != "" && r.Failure == "" {
			profiled = append(profiled, r)
		} else {
			measured = append(measured, r)
		}
	}
	return measured, profiled
}
