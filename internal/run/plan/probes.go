package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/wire/stack"
)

// AddProbes gives the probes to all parts that are measured, and leaves out those that see
// nothing on this machine. A warning says what is not seen, and what would make it visible.
func AddProbes(s *scenario.Scenario, wanted []scenario.Probe) (_ *scenario.Scenario, warnings []string, _ error) {
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
		coverage, err := probes.Coverage(string(probe))
		switch {
		case errors.Is(err, host.ErrUnsupported):
			s = s.Without(probe)
			warnings = append(warnings, fmt.Sprintf("the probe %s is left out: %v", probe, err))
		case err != nil:
			return nil, nil, err
		case len(coverage.Missing) > 0:
			warnings = append(warnings, fmt.Sprintf("the probe %s sees less here (%s); it lacks %s", probe, coverage.Method, strings.Join(coverage.Missing, "; ")))
		}
	}
	return s, warnings, nil
}

// foreignClient returns the foreign program that is the client of a part, if it has one.
func foreignClient(p scenario.Part) (program string, foreign bool) {
	for _, v := range slices.Concat(p.Stacks, p.Yardsticks) {
		if client, is := stack.ForeignClient(v); is {
			return client.Name, true
		}
	}
	return "", false
}
