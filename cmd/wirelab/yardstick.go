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

// yardstick is another project's program that a run may be compared with. It is
// fetched and built only when --yardstick names it.
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
}, each(programs.Clients, func(c programs.Client) yardstick { // the load generators
	return yardstick{c.Name, c.Install, func(v scenario.Variant) bool {
		client, foreign := grpcstack.ForeignClient(v)
		return foreign && client.Name == c.Name
	}}
})...)

func yardstickNames() []string {
	return each(yardsticks, func(y yardstick) string { return y.name })
}

// checkYardsticks checks that the programs are known and that the scenario compares
// with each.
func checkYardsticks(s *scenario.Scenario, names []string) error {
	for _, name := range names {
		if !slices.Contains(yardstickNames(), name) {
			return fmt.Errorf("--yardstick %s: %s", name, scenario.Suggest(name, yardstickNames()))
		}
		if !slices.ContainsFunc(s.Parts, func(p scenario.Part) bool {
			return slices.ContainsFunc(p.Yardsticks, func(v scenario.Variant) bool { return needs(v, name) })
		}) {
			return fmt.Errorf("--yardstick %s: no selected part of %s compares with it", name, s.Name)
		}
	}
	return nil
}

func needs(v scenario.Variant, program string) bool {
	return slices.ContainsFunc(yardsticks, func(y yardstick) bool { return y.name == program && y.serves(v) })
}

// withYardsticks adds to a scenario the variants that need the named programs. A
// program that cannot be installed is left out, with a warning on standard error
// and in the report.
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
