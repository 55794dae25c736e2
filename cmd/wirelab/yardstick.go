package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/filestack"
	"wirelab.dev/internal/stack/restjson"
	programs "wirelab.dev/internal/yardstick"
)

// yardstick is another project's program that a run may be compared with. It is
// fetched and built only when --yardstick names it.
type yardstick struct {
	name    string
	prepare func(ctx context.Context, progress io.Writer) error // fetch and build it, or say why it cannot be had
}

var yardsticks = append([]yardstick{
	{filestack.Caddy.Name, filestack.Caddy.Build},
	{restjson.Gin, restjson.HasGin},
}, each(programs.Clients, func(c programs.Client) yardstick { return yardstick{c.Name, c.Install} })...) // the load generators

// programOf is the name of the yardstick that a variant needs, or "".
func programOf(v scenario.Variant) string {
	if program, foreign := filestack.Program(v); foreign {
		return program
	}
	if client, foreign := stack.ForeignClient(v); foreign {
		return client.Name
	}
	if restjson.OnGin(v) {
		return restjson.Gin
	}
	return ""
}

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
			return slices.ContainsFunc(p.Yardsticks, func(v scenario.Variant) bool { return programOf(v) == name })
		}) {
			return fmt.Errorf("--yardstick %s: no selected part of %s compares with it", name, s.Name)
		}
	}
	return nil
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
	return s.With(func(v scenario.Variant) bool { return slices.Contains(had, programOf(v)) }), warnings
}
