package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
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

// apply gives the probes to the scenario, as far as this machine has them.
func (p probeFlag) apply(s *scenario.Scenario) (_ *scenario.Scenario, warnings []string, _ error) {
	wanted, err := scenario.ParseProbes(p.names)
	if err != nil {
		return nil, nil, fmt.Errorf("--probe: %w", err)
	}
	if s, warnings, err = plan.AddProbes(s, wanted); err != nil {
		return nil, nil, err
	}
	return s, warnings, s.Check(scenarios.Vocabulary())
}
