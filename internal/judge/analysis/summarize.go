package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
	"wirelab.dev/internal/judge/check"
)

// Summarize analyses the trials of a run. They may be fewer than its manifest plans, and in
// any order. The categories sort the call stacks that were seen on CPUs.
func Summarize(m *record.Manifest, judged Judged, categories *insight.Categories) (*Summary, error) {
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
	records, profiled := study.SplitProfiled(records)
	asked, err := study.Read(m)
	if err != nil {
		return nil, err
	}
	asked.Limits = cmp.Or(judged.limits, check.Default())
	s.Host, s.Report, s.Declared = asked.Host, asked.Report, asked.Declarations
	points, err := study.Gather(asked, records)
	if err != nil {
		return nil, fmt.Errorf("analysis: %w", err)
	}
	s.points = points
	cells, remarks := matrix.Cells(points, records, m.Seed)
	s.Cells, s.Warnings = cells, append(s.Warnings, remarks...)
	for i := range s.Cells {
		c := &s.Cells[i]
		c.ForeignClient = c.ForeignClient || asked.IsCalledByOthers(c.Variant)
	}
	if s.Foreign = foreignPrograms(records); len(s.Foreign) > 0 {
		return s, nil // they were not measured by turns, and nothing is drawn from them here
	}
	s.Comparisons, s.Powers = compare.All(points)
	s.Knees = curves.FindKnees(points, m.Seed)
	s.Crossovers = curves.FindCrossovers(points)
	s.Limits = compare.FindLimitEffects(points)
	s.WarmUps = curves.FindWarmUpNeeds(points)
	s.Contrasts = compare.FindContrasts(asked, points)
	s.Scalings = curves.FindScalings(asked, points, m.Seed)
	s.Shares = compare.FindShares(asked, points)
	s.Allocations = insight.FindAllocations(asked.Place, profiled)
	s.Insights = insight.FindInsights(points, profiled, categories)
	s.Profiles = insight.FindProfiles(points, profiled, categories)
	counted, err := study.Gather(asked, study.WithProbe(profiled, record.ProbeSyscalls))
	if err != nil {
		return nil, fmt.Errorf("analysis: %w", err)
	}
	s.Claims = compare.JudgeClaims(asked, points, counted)
	s.Steps = compare.FindSteps(asked, points)
	s.Settings = settings(points)
	s.Machine = machineLimits(points)
	s.Fleet = fleetOf(records)
	return s, nil
}
