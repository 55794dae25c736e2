package plan

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign"
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

// yardsticks returns all of them; the load generators are last.
func yardsticks() []yardstick {
	all := []yardstick{{filestack.Caddy.Name, filestack.Caddy.Build}, {restjson.Gin, restjson.HasGin}}
	for _, c := range foreign.Generators {
		all = append(all, yardstick{c.Name, c.Install})
	}
	return all
}

// programOf returns the name of the yardstick that a variant needs, or "".
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

// YardstickNames returns the programs that a run may be compared with.
func YardstickNames() (names []string) {
	for _, y := range yardsticks() {
		names = append(names, y.name)
	}
	return names
}

// checkYardsticks checks that the programs are known and that the scenario compares
// with each.
func checkYardsticks(s *scenario.Scenario, names []string) error {
	for _, name := range names {
		if !slices.Contains(YardstickNames(), name) {
			return fmt.Errorf("--yardstick %s: %s", name, spelling.Suggest(name, YardstickNames()))
		}
		if !slices.ContainsFunc(s.Parts, func(p scenario.Part) bool {
			return slices.ContainsFunc(p.Yardsticks, func(v scenario.Variant) bool { return programOf(v) == name })
		}) {
			return fmt.Errorf("--yardstick %s: no selected part of %s compares with it", name, s.Name)
		}
	}
	return nil
}

// Named are the programs and peers that a run is asked to measure, too.
type Named struct {
	Yardsticks []string
	Peers      []string
}

// Check checks that the names are known, and that the scenario compares with each.
func (n Named) Check(s *scenario.Scenario) error {
	if err := checkYardsticks(s, n.Yardsticks); err != nil {
		return err
	}
	for _, name := range n.Peers {
		if !slices.Contains(peer.Names(), name) {
			return fmt.Errorf("--peers %s: %s", name, spelling.Suggest(name, peer.Names()))
		}
		if !slices.ContainsFunc(s.Parts, func(p scenario.Part) bool {
			return slices.ContainsFunc(slices.Concat(p.Stacks, p.Yardsticks), func(v scenario.Variant) bool { return slices.Contains(peerNames(v), name) })
		}) {
			return fmt.Errorf("--peers %s: no selected part of %s compares with it", name, s.Name)
		}
	}
	return checkSome(n.Apply(s))
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
func (n Named) wants(v scenario.Variant) bool {
	peers, program := peerNames(v), programOf(v)
	unnamed := func(name string) bool { return !slices.Contains(n.Peers, name) }
	return (len(peers) > 0 || program != "") && !slices.ContainsFunc(peers, unnamed) && (program == "" || slices.Contains(n.Yardsticks, program))
}

// Apply adds the variants that are wanted. Where peers are named, those of others go.
func (n Named) Apply(s *scenario.Scenario) *scenario.Scenario {
	s = s.With(n.wants)
	if len(n.Peers) == 0 {
		return s
	}
	unnamed := func(_ scenario.Part, v scenario.Variant) bool { return len(peersOf(v)) > 0 && !n.wants(v) }
	return withoutVariants(s, unnamed)
}

func peerNames(v scenario.Variant) []string {
	var names []string
	for _, p := range peersOf(v) {
		names = append(names, p.Name)
	}
	return names
}

// Install adds to a scenario the variants that need what is named. A program that cannot be
// installed is left out, with a warning on progress and in the result.
func (n Named) Install(ctx context.Context, s *scenario.Scenario, progress io.Writer) (*scenario.Scenario, []string) {
	had := Named{Peers: n.Peers} // Prepare builds peers
	var warnings []string
	for _, y := range yardsticks() {
		if !slices.Contains(n.Yardsticks, y.name) {
			continue
		}
		if err := y.prepare(ctx, progress); err != nil {
			warnings = append(warnings, fmt.Sprintf("the yardstick %s is left out: %v", y.name, err))
			fmt.Fprintln(progress, warnings[len(warnings)-1])
			continue
		}
		had.Yardsticks = append(had.Yardsticks, y.name)
	}
	return had.Apply(s), warnings
}
