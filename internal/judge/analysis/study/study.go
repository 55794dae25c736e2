// Package study reads what a run's manifest says of its scenario, as far as the analysis
// needs it, and gathers the run's records into points in the scenario's order.
//
// It must not know what is found.
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

// A Study holds what a run's manifest says of its scenario and of the measurement.
type Study struct {
	scenario.Declarations
	Host    map[string]any // the manifest's, as it stands there
	Report  scenario.Report
	Changes []Changes
	Steps   []StepQuestion
	Claims  []scenario.Claim
	// ClaimLooks holds the looks that have begun, if the run repeats until its claims stand.
	ClaimLooks []ClaimLook
	LeftOut    []string       // yardsticks that were not asked for
	Place      map[string]int // where the scenario first has each variant
	Level      matrix.Level
	Limits     check.Limits // that the trials were judged by
}

// Changes holds a part's variants, and what changes from each to the next.
type Changes struct {
	Part     string
	Variants []string // one more than texts
	Texts    []string
}

// Read takes no more from the manifest than it needs, to read one of a newer version.
func Read(m *record.Manifest) (*Study, error) {
	var written struct {
		Parts []struct {
			Name       string          `json:"name"`
			Stacks     []string        `json:"stacks"`
			Changes    []string        `json:"changes"`
			Yardsticks []string        `json:"yardsticks"` // that were left out
			Steps      []scenario.Step `json:"steps"`
		} `json:"parts"`
		Claims []scenario.Claim `json:"claims"`
		Report scenario.Report  `json:"report"`
	}
	s := &Study{Place: map[string]int{}, Level: matrix.LevelOf(m.Until)}
	if err := unmarshal(m.Scenario, "scenario", &written); err != nil {
		return nil, err
	}
	if err := unmarshal(m.Declarations, "declarations", &s.Declarations); err != nil {
		return nil, err
	}
	if err := unmarshal(m.Host, "host", &s.Host); err != nil {
		return nil, err
	}
	s.Report, s.Claims = written.Report, written.Claims
	if u := m.Until; u != nil && u.Claims && u.Check() == nil {
		for i, level := range matrix.LevelsOf(u) {
			s.ClaimLooks = append(s.ClaimLooks, ClaimLook{u.Looks[i].Repeats, level})
		}
	}
	for _, part := range written.Parts {
		s.LeftOut = append(s.LeftOut, part.Yardsticks...)
		for _, variant := range part.Stacks {
			if _, seen := s.Place[variant]; !seen {
				s.Place[variant] = len(s.Place)
			}
		}
		if len(part.Steps) > 0 && len(part.Stacks) > 0 {
			s.Steps = append(s.Steps, StepQuestion{part.Name, part.Stacks[0], part.Steps})
		}
		if n := len(part.Changes); n > 0 && n < len(part.Stacks) { // yardsticks may stand behind
			s.Changes = append(s.Changes, Changes{part.Name, part.Stacks[:n+1], part.Changes})
		}
	}
	return s, nil
}

// unmarshal reads a member of the manifest, which older ones may lack.
func unmarshal(data json.RawMessage, name string, into any) error {
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("analysis: the manifest's %s: %w", name, err)
	}
	return nil
}

// withoutConnections returns a variant's name without its options for connections.
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

// IsCalledByOthers reports whether another client than the stack's own made a variant's calls.
func (s *Study) IsCalledByOthers(name string) bool {
	v, err := scenario.ParseVariant(name)
	return err == nil && slices.ContainsFunc(v.Options, func(set scenario.Setting) bool {
		o := s.Stack(v.Stack).Option(set.Key)
		return o.Role == scenario.CallerRole && set.Value != o.Default
	})
}

// A StepQuestion holds the steps that a part asks about.
type StepQuestion struct {
	Part  string
	First string // variant
	Sizes []scenario.Step
}

// A ClaimLook is a look at the claims after a number of repeats, at a level.
type ClaimLook struct {
	Repeats int
	Level   matrix.Level
}

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
