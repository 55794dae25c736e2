package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/filestack"
	"wirelab.dev/internal/wire/stack/restjson"
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
}, each(foreign.Generators, func(g generator.Generator) yardstick { return yardstick{g.Name, g.Install} })...) // the load generators

// programOf is the name of the yardstick that a variant needs, or "".
func programOf(v scenario.Variant) string {
	if program, is := filestack.Program(v); is {
		return program
	}
	if client, is := stack.ForeignClient(v); is {
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

// named are the programs and peers that a run is asked to measure, too.
type named struct {
	yardsticks []string
	peers      []string
}

// check checks that the names are known, and that the scenario compares with each.
func (n named) check(s *scenario.Scenario) error {
	if err := checkYardsticks(s, n.yardsticks); err != nil {
		return err
	}
	for _, name := range n.peers {
		if !slices.Contains(peer.Names(), name) {
			return fmt.Errorf("--peers %s: %s", name, scenario.Suggest(name, peer.Names()))
		}
		if !slices.ContainsFunc(s.Parts, func(p scenario.Part) bool {
			return slices.ContainsFunc(slices.Concat(p.Stacks, p.Yardsticks), func(v scenario.Variant) bool { return slices.Contains(peerNames(v), name) })
		}) {
			return fmt.Errorf("--peers %s: no selected part of %s compares with it", name, s.Name)
		}
	}
	return checkSome(n.apply(s))
}

// checkSome refuses a scenario that has only what nobody named.
func checkSome(s *scenario.Scenario) error {
	var unnamed []string
	for _, p := range s.Parts {
		if len(p.Stacks) > 0 {
			return nil
		}
		for _, v := range p.Yardsticks {
			unnamed = append(unnamed, peerNames(v)...)
		}
	}
	slices.Sort(unnamed)
	return fmt.Errorf("%s compares workers in other languages: name some, as in --peers %s", s.Name, strings.Join(slices.Compact(unnamed), ","))
}

// wants reports whether a variant's programs and peers are all named.
func (n named) wants(v scenario.Variant) bool {
	peers, program := peerNames(v), programOf(v)
	unnamed := func(name string) bool { return !slices.Contains(n.peers, name) }
	return (len(peers) > 0 || program != "") && !slices.ContainsFunc(peers, unnamed) && (program == "" || slices.Contains(n.yardsticks, program))
}

// apply adds the variants that are wanted. Where peers are named, those of others go.
func (n named) apply(s *scenario.Scenario) *scenario.Scenario {
	s = s.With(n.wants)
	if len(n.peers) == 0 {
		return s
	}
	unnamed := func(_ scenario.Part, v scenario.Variant) bool { return len(peersOf(v)) > 0 && !n.wants(v) }
	return withoutVariants(s, unnamed)
}

func peerNames(v scenario.Variant) []string {
	return each(peersOf(v), func(p peer.Peer) string { return p.Name })
}

// with adds to a scenario the variants that need what is named. A program that cannot be
// installed is left out, with a warning on standard error and in the report.
func (a *app) with(ctx context.Context, s *scenario.Scenario, n named) (*scenario.Scenario, []string) {
	had := named{peers: n.peers} // which are built with all others that are asked for
	var warnings []string
	for _, y := range yardsticks {
		if !slices.Contains(n.yardsticks, y.name) {
			continue
		}
		if err := y.prepare(ctx, a.stderr); err != nil {
			warnings = append(warnings, fmt.Sprintf("the yardstick %s is left out: %v", y.name, err))
			fmt.Fprintln(a.stderr, warnings[len(warnings)-1])
			continue
		}
		had.yardsticks = append(had.yardsticks, y.name)
	}
	return had.apply(s), warnings
}
