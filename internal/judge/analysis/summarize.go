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
	asked, err := readStudy(m)
	if err != nil {
		return nil, err
	}
	asked.limits = cmp.Or(judged.limits, check.Default())
	s.Host, s.Report, s.Declared = asked.host, asked.report, asked.Declarations
	points, err := gather(asked, records)
	if err != nil {
		return nil, fmt.Errorf("analysis: %w", err)
	}
	s.points = points
	cells, remarks := summarizeAll(points, records, m.Seed)
	s.Cells, s.Warnings = cells, append(s.Warnings, remarks...)
	for i := range s.Cells {
		c := &s.Cells[i]
		c.ForeignClient = c.ForeignClient || asked.isCalledByOthers(c.Variant)
	}
	if s.Foreign = foreignPrograms(records); len(s.Foreign) > 0 {
		return s, nil // they were not measured by turns, and nothing is drawn from them here
	}
	s.Comparisons, s.Powers = compareAll(points)
	s.Knees = findKnees(points, m.Seed)
	s.Crossovers = findCrossovers(points)
	s.Limits = limitEffects(points)
	s.WarmUps = warmUpNeeds(points)
	s.Contrasts = findContrasts(asked, points)
	s.Scalings = scalings(asked, points, m.Seed)
	s.Shares = findShares(asked, points)
	s.Allocations = findAllocations(asked.place, profiled)
	s.Insights = findInsights(points, profiled, categories)
	s.Profiles = findProfiles(points, profiled, categories)
	counted, err := gather(asked, withProbe(profiled, record.ProbeSyscalls))
	if err != nil {
		return nil, fmt.Errorf("analysis: %w", err)
	}
	s.Claims = judgeClaims(asked, points, counted)
	s.Steps = findSteps(asked, points)
	s.Settings = settings(points)
	s.Machine = machineLimits(points)
	s.Fleet = fleetOf(records)
	return s, nil
}
