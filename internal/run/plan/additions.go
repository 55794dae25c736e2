package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/machine/host"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/filestack"
	"wirelab.dev/internal/wire/stack/restjson"
)

// A yardstick is another project's program. It is built only if --yardstick names it.
type yardstick struct {
	name    string
	prepare func(ctx context.Context, progress io.Writer) error // fetches and builds the program
}

// yardsticks returns all yardsticks. The load generators come last.
func yardsticks() []yardstick {
	all := []yardstick{{filestack.Caddy.Name, filestack.Caddy.Build}, {restjson.Gin, restjson.HasGin}}
	for _, c := range foreign.Generators {
		all = append(all, yardstick{c.Name, c.Install})
	}
	return all
}

// yardstickOf returns the name of the yardstick that a variant needs, or "" if it needs none.
func yardstickOf(v scenario.Variant) string {
	if program, is := filestack.ForeignProgram(v); is {
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

// YardstickNames returns the names of all yardsticks.
func YardstickNames() []string {
	return lists.Map(yardsticks(), func(y yardstick) string { return y.name })
}

// NamedPrograms holds the names of the yardsticks and peers that the user wants to measure, too.
type NamedPrograms struct {
	Yardsticks []string
	Peers      []string
}

// CheckNames returns an error for unknown names, and for programs that no variant needs.
func (n NamedPrograms) CheckNames(s *scenario.Scenario) error {
	for _, kind := range []struct {
		flag         string
		names, known []string
		of           func(scenario.Variant) []string
	}{
		{"--yardstick", n.Yardsticks, YardstickNames(), func(v scenario.Variant) []string { return []string{yardstickOf(v)} }},
		{"--peers", n.Peers, peer.Names(), peerNames},
	} {
		for _, name := range kind.names {
			if !slices.Contains(kind.known, name) {
				return fmt.Errorf("%s %s: %s", kind.flag, name, spelling.Suggest(name, kind.known))
			}
			if !slices.ContainsFunc(s.Parts, func(p scenario.Part) bool {
				return slices.ContainsFunc(slices.Concat(p.Stacks, p.Yardsticks), func(v scenario.Variant) bool { return slices.Contains(kind.of(v), name) })
			}) {
				return fmt.Errorf("%s %s: no selected part of %s has a variant that uses %[2]s: leave the flag out, or select other parts", kind.flag, name, s.Name)
			}
		}
	}
	return checkAnyVariantLeft(n.AddTo(s))
}

// checkAnyVariantLeft returns an error if every variant needs programs that the user did not name.
func checkAnyVariantLeft(s *scenario.Scenario) error {
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
	return fmt.Errorf("%s compares workers in other languages: name the workers, as in --peers %s", s.Name, strings.Join(slices.Compact(unnamed), ","))
}

// hasAllNamed reports whether a variant needs yardsticks or peers, and the user has named them all.
func (n NamedPrograms) hasAllNamed(v scenario.Variant) bool {
	peers, program := peerNames(v), yardstickOf(v)
	unnamed := func(name string) bool { return !slices.Contains(n.Peers, name) }
	return (len(peers) > 0 || program != "") && !slices.ContainsFunc(peers, unnamed) && (program == "" || slices.Contains(n.Yardsticks, program))
}

// AddTo returns the scenario with the variants that need the named programs. If the user names
// peers, it removes the variants that need other peers.
func (n NamedPrograms) AddTo(s *scenario.Scenario) *scenario.Scenario {
	s = s.With(n.hasAllNamed)
	if len(n.Peers) == 0 {
		return s
	}
	unnamed := func(_ scenario.Part, v scenario.Variant) bool { return len(peerNames(v)) > 0 && !n.hasAllNamed(v) }
	return moveToYardsticks(s, unnamed)
}

// InstallAndAdd installs the named yardsticks and adds their variants to the scenario. It returns a
// warning for each yardstick whose installation fails.
func (n NamedPrograms) InstallAndAdd(ctx context.Context, s *scenario.Scenario, progress io.Writer) (*scenario.Scenario, []string) {
	had := NamedPrograms{Peers: n.Peers} // Prepare will build the peers
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
	return had.AddTo(s), warnings
}

// NoLink stands for the plain loopback in a list of links.
const NoLink = "none"

// ApplyLinks sets the link of the scenario's only part. For several links it makes a part per link.
func ApplyLinks(s *scenario.Scenario, links []string) error {
	if len(links) == 0 {
		return nil
	}
	part := s.Parts[0]
	s.Parts = nil
	for _, text := range links {
		one := part
		if text != NoLink {
			network, err := scenario.ParseLink(text)
			if err != nil {
				return fmt.Errorf("--link: %w", err)
			}
			one.Network = network
		}
		if len(links) > 1 {
			one.Of, one.Name = part.Name, part.Name+"-"+partNameOf(text)
			one.Title = cmp.Or(one.Network.String(), "loopback")
		}
		s.Parts = append(s.Parts, one)
	}
	return nil
}

// partNameOf makes a part's name from the text of a link.
func partNameOf(link string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLower(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, strings.ToLower(link)), "-")
}

// notForServices says for each probe that needs wirelab's own workers what to use instead for a service.
var notForServices = map[scenario.Probe]string{
	record.ProbeAllocations: "only wirelab's own workers sample their heap for it: use the service's own profiler, as net/http/pprof in Go",
}

// ServiceProbes lists the probes that can observe a service of the user's own.
func ServiceProbes() []scenario.Probe {
	return slices.DeleteFunc(slices.Clone(scenario.Probes), func(p scenario.Probe) bool { return notForServices[p] != "" })
}

func needsOneMachine(p scenario.Probe) bool { return probes.NeedsOneMachine(string(p)) }

// ProbesOf lists the probes of a scenario.
func ProbesOf(s *scenario.Scenario) (names []string) {
	for _, p := range s.Parts {
		for _, probe := range p.Probes {
			names = lists.AppendNew(names, string(probe))
		}
	}
	return names
}

// parseProbes reads the names of probes for a scenario.
func parseProbes(s *scenario.Scenario, names []string, fleet record.FleetWanted) ([]scenario.Probe, error) {
	wanted, err := scenario.ParseProbes(names)
	if fleet.IsNamed() && slices.Contains(names, "all") {
		wanted = slices.DeleteFunc(slices.Clone(wanted), needsOneMachine)
	}
	if err != nil || len(wanted) == 0 || s.Parts[0].Stacks[0].Stack != record.ServiceStack {
		return wanted, err
	}
	if slices.Contains(names, "all") {
		wanted = ServiceProbes()
	}
	for _, p := range wanted {
		if instead := notForServices[p]; instead != "" {
			return nil, fmt.Errorf("%s cannot observe a service: %s", p, instead)
		}
	}
	if s.Parts[0].Load.Model == scenario.Search {
		return nil, errors.New("a search with --goal has many rates, and a probe would change them: first find the rate, then measure it with --rps and --probe")
	}
	return wanted, nil
}

// AddProbes adds the probes with these names to all measured parts. It leaves out probes that do not
// work on this machine. Each warning says what a probe cannot observe here, and what would help. The
// agents of a fleet say themselves which probes they can run.
func AddProbes(s *scenario.Scenario, names []string, fleet record.FleetWanted) (_ *scenario.Scenario, warnings []string, _ error) {
	wanted, err := parseProbes(s, names, fleet)
	if err != nil {
		return nil, nil, err
	}
	if len(wanted) > 0 {
		s = new(*s)
		s.Parts = slices.Clone(s.Parts)
		for i, part := range s.Parts {
			switch program, foreign := foreignClient(part); {
			case foreign:
				warnings = append(warnings, fmt.Sprintf("the part %s is measured without probes: probes cannot observe its client, %s", part.Name, program))
			case part.Profile == "":
				s.Parts[i].Probes = wanted
			}
		}
	}
	for _, probe := range scenario.Probes {
		if fleet.IsNamed() || !s.HasProbe(probe) {
			continue
		}
		coverage, err := probes.Coverage(string(probe))
		switch {
		case errors.Is(err, host.ErrUnsupported):
			s = s.Without(probe)
			warnings = append(warnings, fmt.Sprintf("the probe %s is left out: %v", probe, err))
		case err != nil:
			return nil, nil, err
		case len(coverage.Missing) > 0:
			warnings = append(warnings, fmt.Sprintf("the probe %s cannot observe everything on this machine (%s); missing: %s", probe, coverage.Method, strings.Join(coverage.Missing, "; ")))
		}
	}
	return s, warnings, nil
}

// foreignClient returns the name of the other project's program that makes a part's calls, if any.
func foreignClient(p scenario.Part) (program string, foreign bool) {
	for _, v := range slices.Concat(p.Stacks, p.Yardsticks) {
		if client, is := stack.ForeignClient(v); is {
			return client.Name, true
		}
	}
	return "", false
}

// CheckSystem returns an error if a command, or a flag that was given, can only work on Linux. With a
// fleet the agents do the work, and they may run on Linux.
func CheckSystem(system, command string, given func(flag string) bool) error {
	var what string
	switch {
	case system == "linux" || given("fleet"):
		return nil
	case command == "ab", command == "selftest" && !given("list"):
		what = "wirelab " + command
	case given("probe"):
		what = "--probe"
	case given("link"):
		what = "--link"
	default:
		return nil
	}
	return fmt.Errorf("%s needs Linux, and this system is %s: use it on a Linux machine, or in a virtual machine with Linux", what, system)
}
