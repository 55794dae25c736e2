package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/wire/stack"
)

// probeFlag says what is seen of each cell besides its times.
type probeFlag struct{ names []string }

func (p *probeFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&p.names, "probe", nil,
		"see why, in trials of their own: the `probes` "+strings.Join(probeNames(), ", ")+", or all (wirelab doctor says what each costs)")
	complete(cmd, "probe", append(probeNames(), "all"))
}

func probeNames() []string {
	return each(scenario.Probes, func(p scenario.Probe) string { return string(p) })
}

// apply gives the probes to all parts that are measured, and leaves out those that see
// nothing on this machine. A warning says what is not seen, and what it takes.
func (p probeFlag) apply(s *scenario.Scenario) (_ *scenario.Scenario, warnings []string, _ error) {
	wanted, err := scenario.ParseProbes(p.names)
	if err != nil {
		return nil, nil, fmt.Errorf("--probe: %w", err)
	}
	if len(wanted) > 0 {
		s = new(*s)
		s.Parts = slices.Clone(s.Parts)
		for i, part := range s.Parts {
			switch program, foreign := foreignClient(part); {
			case foreign:
				warnings = append(warnings, fmt.Sprintf("part %s is not looked into: %s cannot be", part.Name, program))
			case part.Profile == "":
				s.Parts[i].Probes = wanted
			}
		}
	}
	for _, probe := range scenario.Probes {
		if !s.HasProbe(probe) {
			continue
		}
		ability, err := probes.Ability(string(probe))
		switch {
		case errors.Is(err, host.ErrUnsupported):
			s = s.Without(probe)
			warnings = append(warnings, fmt.Sprintf("the probe %s is left out: %v", probe, err))
		case err != nil:
			return nil, nil, err
		case len(ability.Missing) > 0:
			warnings = append(warnings, fmt.Sprintf("the probe %s sees less here (%s); it lacks %s", probe, ability.Method, strings.Join(ability.Missing, "; ")))
		}
	}
	return s, warnings, s.Check(vocabulary())
}

// foreignClient is a program of others that a part may have for its client.
func foreignClient(p scenario.Part) (program string, foreign bool) {
	for _, v := range slices.Concat(p.Stacks, p.Yardsticks) {
		if client, is := stack.ForeignClient(v); is {
			return client.Name, true
		}
	}
	return "", false
}
