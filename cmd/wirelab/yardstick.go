package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/filestack"
)

// yardsticks are the programs of others that a run may be held against. Each is
// fetched and built when it is asked for, and never otherwise.
var yardsticks = []struct {
	name  string
	build func(ctx context.Context, progress io.Writer) error
}{
	{filestack.Caddy, filestack.BuildCaddy},
}

func yardstickNames() []string {
	var names []string
	for _, y := range yardsticks {
		names = append(names, y.name)
	}
	return names
}

// checkYardsticks wants names of programs, and a scenario that asks about them.
func checkYardsticks(s *scenario.Scenario, names []string) error {
	for _, name := range names {
		if !slices.Contains(yardstickNames(), name) {
			return fmt.Errorf("--yardstick %s: %s", name, scenario.Suggest(name, yardstickNames()))
		}
		if !slices.ContainsFunc(s.Parts, func(p scenario.Part) bool {
			return slices.ContainsFunc(p.Yardsticks, func(v scenario.Variant) bool { return needs(v, name) })
		}) {
			return fmt.Errorf("--yardstick %s: no part of %s that is to run holds anything against it", name, s.Name)
		}
	}
	return nil
}

func needs(v scenario.Variant, program string) bool {
	name, foreign := filestack.Program(v)
	return foreign && name == program
}

// withYardsticks adds to a scenario what needs the named programs. One that cannot be
// had is left out, with a word to whoever waits and one for the report.
func (a *app) withYardsticks(ctx context.Context, s *scenario.Scenario, names []string) (*scenario.Scenario, []string) {
	var had, warnings []string
	for _, y := range yardsticks {
		if !slices.Contains(names, y.name) {
			continue
		}
		if err := y.build(ctx, a.stderr); err != nil {
			warnings = append(warnings, fmt.Sprintf("the yardstick %s is left out: %v", y.name, err))
			fmt.Fprintln(a.stderr, warnings[len(warnings)-1])
			continue
		}
		had = append(had, y.name)
	}
	return s.With(func(v scenario.Variant) bool {
		return slices.ContainsFunc(had, func(name string) bool { return needs(v, name) })
	}), warnings
}
