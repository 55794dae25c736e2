package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// Summarize analyses the trials of a run. They may be fewer than its manifest
// plans, and in any order.
func Summarize(m *record.Manifest, judged Judged) (*Summary, error) {
	return SummarizeBy(UsualCategories(), m, judged)
}

// SummarizeBy sorts what was seen of CPUs into the categories of a table.
func SummarizeBy(categories *Categories, m *record.Manifest, judged Judged) (*Summary, error) {
	records := judged.Records
	s := &Summary{
		Name: m.Name, Title: m.Title, Question: m.Question,
		Started: m.Started, Status: m.Status, Seed: m.Seed,
		Planned: m.Trials, Done: len(records), Command: m.Command,
		Warnings: slices.Clone(m.Warnings), Rejudged: judged.Rejudged, Until: m.Until,
	}
	if err := unmarshal(m.Host, "host", &s.Host); err != nil {
		return nil, err
	}
	for _, r := range records {
		switch {
		case r.Failure != "":
			s.Failed++
		case !r.Valid() && r.Probe == "":
			s.Invalid++
		}
		s.Again.count(r)
	}
	records, profiled := splitProfiled(records)
	study, err := readStudy(m)
	if err != nil {
		return nil, err
	}
	study.limits = cmp.Or(judged.limits, check.Default())
	s.Report, s.Declared = study.report, study.Declarations
	points, err := gather(study, records)
	if err != nil {
		return nil, fmt.Errorf("analysis: %w", err)
	}
	s.points = points
	shared := sharedRemarks(records)
	s.Warnings = append(s.Warnings, shared.texts()...)
	for _, p := range points {
		c := p.summarize(shared, m.Seed)
		c.ForeignClient = c.ForeignClient || study.isCalledByOthers(c.Variant)
		s.Cells = append(s.Cells, c)
	}
	if s.Foreign = foreignPrograms(records); len(s.Foreign) > 0 {
		return s, nil // they were not measured by turns, and nothing is drawn from them here
	}
	s.Comparisons, s.Powers = compareAll(points)
	s.Knees = findKnees(points, m.Seed)
	s.Crossovers = findCrossovers(points)
	s.Limits = limitEffects(points)
	s.WarmUps = warmUpNeeds(points)
	s.Contrasts = findContrasts(study, points)
	s.Scalings = scalings(study, points, m.Seed)
	s.Shares = findShares(study, points)
	s.Allocations = findAllocations(study.place, profiled)
	s.Insights = findInsights(points, profiled, categories)
	s.Profiles = findProfiles(points, profiled, categories)
	counted, err := gather(study, withProbe(profiled, record.ProbeSyscalls))
	if err != nil {
		return nil, fmt.Errorf("analysis: %w", err)
	}
	s.Claims = judgeClaims(study, points, counted)
	s.Steps = findSteps(study, points)
	s.Settings = settings(points)
	s.Machine = machineLimits(points)
	s.Fleet = fleetOf(records)
	return s, nil
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

// withProbe are the passes of a probe.
func withProbe(passes []*record.Record, probe string) []*record.Record {
	return slices.DeleteFunc(slices.Clone(passes), func(r *record.Record) bool { return r.Probe != probe })
}

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
