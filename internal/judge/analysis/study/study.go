// Package study reads the parts of a run's manifest that the analysis needs. It also groups the
// run's trials by cell, in the scenario's order.
//
// It does not know the results of the analysis.
package study

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/check"
)

// A Study holds the scenario and the conditions of the measurement, from the run's manifest.
type Study struct {
	scenario.Declarations
	Host    map[string]any // facts about the machine, copied from the manifest
	Report  scenario.Report
	Changes []VariantChanges
	Steps   []StepQuestion
	Levers  []LeverQuestion
	Claims  []scenario.Claim
	// Published is the source of the claims' published figures; empty if there is none.
	Published string
	// ClaimLooks holds the begun looks of a run that repeats until its claims are decided. A look
	// is one evaluation of the run so far.
	ClaimLooks []ClaimLook
	PartTitles map[string]string // titles of the scenario's parts, by name
	LeftOut    []string          // yardstick variants that the run did not measure
	Place      map[string]int    // each variant's first position in the scenario
	Until      *record.Until
	Limits     check.Limits // limits that the trials were judged by
}

// VariantChanges holds a part's variants, and the change from each to the next.
type VariantChanges struct {
	Part     string
	Variants []string // one more element than Texts
	Texts    []string // descriptions of the changes
}

// Read reads only the needed parts of the manifest, so that it also accepts newer manifests.
func Read(m *record.Manifest) (*Study, error) {
	var written struct {
		Parts []struct {
			Name       string          `json:"name"`
			Title      string          `json:"title"`
			Stacks     []string        `json:"stacks"`
			Changes    []string        `json:"changes"`
			Yardsticks []string        `json:"yardsticks"` // only yardstick variants that the run did not measure
			Steps      []scenario.Step `json:"steps"`
			Levers     scenario.Levers `json:"levers"`
		} `json:"parts"`
		Claims    []scenario.Claim `json:"claims"`
		Published string           `json:"published"`
		Report    scenario.Report  `json:"report"`
	}
	s := &Study{PartTitles: map[string]string{}, Place: map[string]int{}, Until: m.Until}
	if err := unmarshal(m.Scenario, "scenario", &written); err != nil {
		return nil, err
	}
	if err := unmarshal(m.Declarations, "declarations", &s.Declarations); err != nil {
		return nil, err
	}
	if err := unmarshal(m.Host, "host", &s.Host); err != nil {
		return nil, err
	}
	s.Report, s.Claims, s.Published = written.Report, written.Claims, written.Published
	if u := m.Until; u != nil && u.Claims && u.Check() == nil {
		for i, level := range matrix.BegunLevels(u) {
			s.ClaimLooks = append(s.ClaimLooks, ClaimLook{u.Looks[i].Repeats, level})
		}
	}
	for _, part := range written.Parts {
		s.PartTitles[part.Name] = part.Title
		s.LeftOut = append(s.LeftOut, part.Yardsticks...)
		for _, variant := range part.Stacks {
			if _, seen := s.Place[variant]; !seen {
				s.Place[variant] = len(s.Place)
			}
		}
		if len(part.Steps) > 0 && len(part.Stacks) > 0 {
			s.Steps = append(s.Steps, StepQuestion{part.Name, part.Stacks[0], part.Steps})
		}
		if len(part.Levers.Tried) > 0 && len(part.Stacks) > 0 {
			s.Levers = append(s.Levers, LeverQuestion{part.Levers, part.Name, part.Stacks[0]})
		}
		if n := len(part.Changes); n > 0 && n < len(part.Stacks) { // yardstick variants may follow
			s.Changes = append(s.Changes, VariantChanges{part.Name, part.Stacks[:n+1], part.Changes})
		}
	}
	return s, nil
}

// unmarshal reads a member of the manifest. Older manifests may lack it.
func unmarshal(data json.RawMessage, name string, into any) error {
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("analysis: read %q in the manifest: %w", name, err)
	}
	return nil
}

// withoutConnections returns a variant's name without its connection options.
func (s *Study) withoutConnections(name string) string {
	v, err := scenario.ParseVariant(name)
	if err != nil {
		return name
	}
	v.Options = slices.DeleteFunc(v.Options, func(set scenario.Setting) bool {
		return set.Key == scenario.ConnectionOption || s.Stack(v.Stack).Option(set.Key).Role == scenario.ConnectionsRole
	})
	return v.String()
}

// HasForeignCaller reports whether another client than the stack's own calls a variant.
func (s *Study) HasForeignCaller(name string) bool {
	v, err := scenario.ParseVariant(name)
	return err == nil && slices.ContainsFunc(v.Options, func(set scenario.Setting) bool {
		o := s.Stack(v.Stack).Option(set.Key)
		return o.Role == scenario.CallerRole && set.Value != o.Default
	})
}

// A StepQuestion asks at which sizes a part's calls suddenly take longer.
type StepQuestion struct {
	Part  string
	First string // first variant, with which the other variants are compared
	Sizes []scenario.Step
}

// A LeverQuestion asks which lever moves a part's first variant, plain.
type LeverQuestion struct {
	scenario.Levers
	Part, Plain string
}

// A ClaimLook is one evaluation of the claims, after a number of repeats.
type ClaimLook struct {
	Repeats int
	Level   matrix.Level
}

// GroupTrials groups the trials of equal cells. It sorts the points by their variant's position in
// the scenario, because the plan is shuffled, and then by the plan.
func GroupTrials(s *Study, records []*record.Record) ([]*matrix.Point, error) {
	planned := slices.Clone(records)
	slices.SortStableFunc(planned, func(a, b *record.Record) int { return cmp.Compare(a.Trial, b.Trial) })
	repeats := map[record.Cell]int{}
	for _, r := range records {
		repeats[r.Cell] = max(repeats[r.Cell], r.Repeat)
	}
	var points []*matrix.Point
	at := map[record.Cell]*matrix.Point{}
	for _, r := range planned {
		p := at[r.Cell]
		if p == nil {
			p = &matrix.Point{Cell: r.Cell, Level: matrix.LevelAfter(s.Until, repeats[r.Cell]), Limits: s.Limits}
			p.WithoutConnections = s.withoutConnections(r.Cell.Variant)
			at[r.Cell] = p
			points = append(points, p)
		}
		if err := p.AddTrial(r); err != nil {
			return nil, fmt.Errorf("trial %d, %s: %w", r.Trial, r.Cell.Key(), err)
		}
	}
	matrix.AlignBlocks(points)
	slices.SortStableFunc(points, func(a, b *matrix.Point) int { return cmp.Compare(s.Place[a.Cell.Variant], s.Place[b.Cell.Variant]) })
	return points, nil
}

// A Run holds a run's trials, and those of equal cells as points.
type Run struct {
	*Study
	Measured, Profiled []*record.Record
	Points             []*matrix.Point // of the measured trials
	Counted            []*matrix.Point // of the profiled trials that counted system calls
}

// ReadRun reads the manifest, and groups the trials.
func ReadRun(m *record.Manifest, records []*record.Record, limits check.Limits) (*Run, error) {
	s, err := Read(m)
	if err != nil {
		return nil, err
	}
	s.Limits = limits
	run := &Run{Study: s}
	run.Measured, run.Profiled = SplitProfiled(records)
	counted := slices.DeleteFunc(slices.Clone(run.Profiled), func(r *record.Record) bool { return r.Probe != record.ProbeSyscalls })
	if run.Points, err = GroupTrials(s, run.Measured); err == nil {
		run.Counted, err = GroupTrials(s, counted)
	}
	if err != nil {
		return nil, fmt.Errorf("analysis: %w", err)
	}
	return run, nil
}

// SplitProfiled separates measured trials from profiled ones, because a probe changes the figures.
// A failed profiled trial counts as measured, so that reports show its failure.
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
