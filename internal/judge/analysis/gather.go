package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/data/record"
)

// gather puts the trials of equal cells together. Points are sorted by the place of
// their variant in the scenario, since the plan is shuffled, and then by the plan.
func gather(s *study, records []*record.Record) ([]*point, error) {
	planned := slices.Clone(records)
	slices.SortStableFunc(planned, func(a, b *record.Record) int { return cmp.Compare(a.Trial, b.Trial) })
	var points []*point
	at := map[record.Cell]*point{}
	for _, r := range planned {
		p := at[r.Cell]
		if p == nil {
			p = &point{cell: r.Cell, level: s.level, limits: s.limits}
			p.withoutConnections = s.withoutConnections(r.Cell.Variant)
			at[r.Cell] = p
			points = append(points, p)
		}
		if err := p.add(r); err != nil {
			return nil, fmt.Errorf("trial %d, %s: %w", r.Trial, r.Cell.Key(), err)
		}
	}
	slices.SortStableFunc(points, func(a, b *point) int { return cmp.Compare(s.place[a.cell.Variant], s.place[b.cell.Variant]) })
	return points, nil
}

// withProbe are the passes of a probe.
func withProbe(passes []*record.Record, probe string) []*record.Record {
	return slices.DeleteFunc(slices.Clone(passes), func(r *record.Record) bool { return r.Probe != probe })
}

// splitProfiled separates trials that were measured from those that were profiled,
// whose figures must not be used. A profiled trial that failed goes to the measured
// ones, so that its reason is shown.
func splitProfiled(records []*record.Record) (measured, profiled []*record.Record) {
	for _, r := range records {
		if r.Probe != "" && r.Failure == "" {
			profiled = append(profiled, r)
		} else {
			measured = append(measured, r)
		}
	}
	return measured, profiled
}
