package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/filestack"
	"wirelab.dev/internal/stack/grpcstack"
	"wirelab.dev/internal/stack/restjson"
	programs "wirelab.dev/internal/yardstick"
)

// yardstick is a program of others that a run may be held against. It is prepared
// when it is asked for, and never otherwise.
type yardstick struct {
	name    string
	prepare func(ctx context.Context, progress io.Writer) error // fetch and build it, or say why it cannot be had
	serves  func(scenario.Variant) bool
}

var yardsticks = append([]yardstick{
	{filestack.Caddy.Name, filestack.Caddy.Build, func(v scenario.Variant) bool {
		_, foreign := filestack.Program(v)
		return foreign
	}},
	{restjson.Gin, restjson.HasGin, restjson.OnGin},
}, clientYardsticks()...)

// clientYardsticks are the load generators.
func clientYardsticks() []yardstick {
	var all []yardstick
	for _, c := range programs.Clients {
		all = append(all, yardstick{c.Name, c.Install, func(v scenario.Variant) bool {
			client, foreign := grpcstack.ForeignClient(v)
			return foreign && client.Name == c.Name
		}})
	}
	return all
}

func yardstickNames() []string {
	return namesOf(yardsticks, func(y yardstick) string { return y.name })
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
	return slices.ContainsFunc(yardsticks, func(y yardstick) bool { return y.name == program && y.serves(v) })
}

// withYardsticks adds to a scenario what needs the named programs. One that cannot be
// had is left out, with a word to whoever waits and one for the report.
func (a *app) withYardsticks(ctx context.Context, s *scenario.Scenario, names []string) (*scenario.Scenario, []string) {
	var had, warnings []string
	for _, y := range yardsticks {
		if !slices.Contains(names, y.name) {
			continue
		}
		if err := y.prepare(ctx, a.stderr); err != nil {
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
