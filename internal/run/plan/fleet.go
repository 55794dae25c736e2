package plan

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/data/scenario"
)

// CheckForFleet refuses what a scenario asks for that a fleet does not have. OneClient says that
// one agent has all clients.
func CheckForFleet(s *scenario.Scenario, oneClient bool) error {
	for _, p := range s.Parts {
		linked := func(n scenario.NamedNetwork) bool { return n.Network != (scenario.Network{}) }
		switch {
		case p.Network != (scenario.Network{}) || slices.ContainsFunc(p.Networks, linked):
			return fmt.Errorf("part %s: a fleet's machines have their own network, and no link is emulated between them: leave out `network` and --link", p.Name)
		case len(p.Probes) > 0:
			return fmt.Errorf("part %s: probe %s: probes look on from the machine that the ends run on: leave it out, or measure without a fleet", p.Name, p.Probes[0])
		case p.Load.Model == scenario.Search && !oneClient:
			return fmt.Errorf("part %s: a search is not spread over several machines: choose one, as in --client role=client", p.Name)
		}
	}
	return nil
}
