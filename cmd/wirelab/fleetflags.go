package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/plan"
)

// fleetFlags say which machines of a fleet measure, in the place of this one.
type fleetFlags struct{ record.FleetWanted }

func (f *fleetFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Hub, "fleet", "", "measure on the agents of the fleet with this `name` or URL (see wirelab fleet)")
	flags.StringVar(&f.TokenFile, "fleet-token", "", "`file` with the controller's token, where the fleet's hub is on another machine")
	flags.StringVar(&f.Server, "server", "", "which `agent` has the server, by its labels (default: role=server)")
	completeHubs(cmd)
	flags.StringVar(&f.Client, "client", "", "which `agents` have the clients, and how many, as in role=client*8 (default: role=client*, all of them)")
}

// joinFleet becomes the controller of a fleet, and takes its agents.
func (a *app) joinFleet(ctx context.Context, w *record.FleetWanted, program string, s *scenario.Scenario, targets map[string]string) (*fleet.Controller, error) {
	credentials, err := hub.ControllerCredentials(w.Hub, w.TokenFile)
	if err != nil {
		return nil, usage(err)
	}
	agents, err := fleet.PlanFor(w)
	if err == nil {
		err = plan.CheckForFleet(s, agents.Client.Count == 1)
	}
	if err != nil {
		return nil, usage(err)
	}
	agents.Worker, agents.Report = program, func(line string) { fmt.Fprintln(a.stderr, line) }
	controller, err := fleet.NewController(ctx, credentials, agents)
	if err != nil {
		return nil, err
	}
	if err = controller.Join(ctx); err == nil {
		if err = fleet.CheckReach(controller.Elsewhere(), targets); err != nil {
			err = usage(err)
		}
	}
	if err != nil {
		controller.Close()
		return nil, err
	}
	return controller, nil
}
