package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/lab"
)

// fleetFlags say which machines of a fleet measure, in the place of this one.
type fleetFlags struct {
	hub       string
	tokenFile string
	server    string
	client    string
}

// usualClientAgents are all that say that they are clients.
const usualClientAgents = "role=client*"

func (f *fleetFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.hub, "fleet", "", "measure on the agents of the fleet with this `name` or URL (see wirelab fleet)")
	flags.StringVar(&f.tokenFile, "fleet-token", "", "`file` with the controller's token, where the fleet's hub is on another machine")
	flags.StringVar(&f.server, "server", "", "which `agent` has the server, by its labels (default: role=server)")
	completeHubs(cmd)
	flags.StringVar(&f.client, "client", "", "which `agents` have the clients, and how many, as in role=client*8 (default: role=client*, all of them)")
}

// wanted says what the flags want of a fleet; nil: nothing.
func (f *fleetFlags) wanted(given bool) (*record.FleetWanted, error) {
	if f.hub == "" && f.tokenFile == "" {
		if f.server != "" || f.client != "" {
			return nil, errors.New("--server and --client choose agents of a fleet: name it with --fleet")
		}
		return nil, nil
	}
	if given && f.server != "" {
		return nil, fmt.Errorf("--server %s: the server is given, and no agent has one: leave it out", f.server)
	}
	w := &record.FleetWanted{Hub: f.hub, TokenFile: f.tokenFile, Server: f.server, Client: f.client}
	if !given && w.Server == "" {
		w.Server = "role=server"
	}
	if w.Client == "" {
		w.Client = usualClientAgents
	}
	for flag, text := range map[string]string{"--server": w.Server, "--client": w.Client} {
		if text == "" {
			continue
		}
		s, err := fleet.ParseSelector(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if flag == "--server" && s.Count != 1 {
			return nil, fmt.Errorf("--server %s: want one agent", text)
		}
	}
	return w, nil
}

// joinFleet becomes the controller of a fleet, and takes its agents.
func (a *app) joinFleet(ctx context.Context, w *record.FleetWanted, program string, s *scenario.Scenario, targets map[string]string) (*fleet.Controller, error) {
	from := whichFleet{hub: w.Hub, tokenFile: w.TokenFile}
	credentials, err := from.credentials()
	if err != nil {
		return nil, usage(err)
	}
	plan := fleet.Plan{Worker: program, Report: func(line string) { fmt.Fprintln(a.stderr, line) }}
	if w.Server != "" {
		server, err := fleet.ParseSelector(w.Server)
		if err != nil {
			return nil, usage(err)
		}
		plan.Server = &server
	}
	if plan.Client, err = fleet.ParseSelector(w.Client); err != nil {
		return nil, usage(err)
	}
	if err := checkForFleet(s, plan.Client); err != nil {
		return nil, usage(err)
	}
	controller, err := fleet.NewController(ctx, credentials, plan)
	if err != nil {
		return nil, err
	}
	err = controller.Join(ctx)
	if err == nil {
		err = checkReach(controller.Elsewhere(), targets)
	}
	if err != nil {
		controller.Close()
		return nil, err
	}
	return controller, nil
}

// checkReach refuses a server that an agent on another machine would look for on its own.
func checkReach(elsewhere string, targets map[string]string) error {
	if elsewhere == "" {
		return nil
	}
	for _, address := range targets {
		at, err := netip.ParseAddrPort(address)
		if err == nil && at.Addr().IsLoopback() {
			return usage(fmt.Errorf("the server at %s is on this machine's loopback, and the agent %s on another machine would look for it on its own: name an address that all reach", address, elsewhere))
		}
	}
	return nil
}

// checkForFleet refuses what a scenario wants that a fleet has not.
func checkForFleet(s *scenario.Scenario, clients fleet.Selector) error {
	for _, p := range s.Parts {
		linked := func(n scenario.NamedNetwork) bool { return n.Network != (scenario.Network{}) }
		switch {
		case p.Network != (scenario.Network{}) || slices.ContainsFunc(p.Networks, linked):
			return fmt.Errorf("part %s: a fleet's machines have their own network, and no link is emulated between them: leave out `network` and --link", p.Name)
		case len(p.Probes) > 0:
			return fmt.Errorf("part %s: probe %s: probes look on from the machine that the ends run on: leave it out, or measure without a fleet", p.Name, p.Probes[0])
		case p.Load.Model == scenario.Search && clients.Count != 1:
			return fmt.Errorf("part %s: a search is not spread over several machines: choose one, as in --client role=client", p.Name)
		}
	}
	return nil
}

var _ lab.Fleet = (*fleet.Controller)(nil)
