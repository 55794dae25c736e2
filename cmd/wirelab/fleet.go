package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

func (a *app) fleetCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "fleet",
		Short: "Measure with more machines than this one: start a hub, see its agents, end it",
		Long: `A fleet is machines that lend themselves to trials. A hub, on any of them, brings
them together; wirelab agent, on each that is to measure, obeys the orders of
whoever has the controller's token.

  wirelab fleet up --listen 0.0.0.0:4222         here; prints the line for the others
  wirelab agent --nats … --labels role=client    there, and role=server on another
  wirelab compare --fleet NAME                   here`,
		Example: `  wirelab fleet up --detach --agent role=server --agent 'role=client*2'
  wirelab fleet list
  wirelab fleet down`,
	}, a.fleetUpCommand(), a.fleetListCommand(), a.fleetCheckCommand(), a.fleetTokenCommand(), a.fleetDownCommand())
}

// whichFleet says which fleet a command is about.
type whichFleet struct {
	fleet     string
	tokenFile string
}

func (w *whichFleet) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.fleet, "fleet", "", "the fleet's `name` or URL (default: the only one that is up on this machine)")
	cmd.Flags().StringVar(&w.tokenFile, "fleet-token", "", "`file` with the controller's token, where the hub is on another machine; WIRELAB_TOKEN does too")
	completeHubs(cmd)
}

// completeHubs offers the names of the fleets that are up.
func completeHubs(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("fleet", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		hubs, _ := hub.RunningHubs() // what cannot be read is not offered
		var names []string
		for _, running := range hubs {
			names = append(names, running.Project)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag is not there: our own mistake
	}
}

// look connects to the hub and reads who is there. The caller closes it.
func (w *whichFleet) look(ctx context.Context) (*protocol.Visit, error) {
	c, err := hub.ControllerCredentials(w.fleet, w.tokenFile)
	if err != nil {
		return nil, usage(err)
	}
	return protocol.Look(ctx, c)
}

func (a *app) fleetListCommand() *cobra.Command {
	var which whichFleet
	cmd := a.finds("one JSON list", &cobra.Command{
		Use: "list", Short: "List the agents that are there, and what they are", Args: cobra.NoArgs,
		Example: `  wirelab fleet list
  wirelab fleet list --json | jq -r '.[].name'`,
	}, func(cmd *cobra.Command, _ []string) (finding, error) {
		seen, err := which.look(cmd.Context())
		if err != nil {
			return finding{}, err
		}
		defer seen.Close()
		return printed(append([]protocol.Card{}, seen.Cards...), func(w io.Writer) error { return printCards(w, seen.Cards) }), nil
	})
	which.register(cmd)
	return cmd
}

func printCards(to io.Writer, cards []protocol.Card) error {
	if len(cards) == 0 {
		_, err := fmt.Fprintln(to, "no agents: start some by the line that wirelab fleet token prints")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "agent\tlabels\taddress\tCPUs\tmachine\tstate")
	for _, c := range cards {
		state := "free"
		if c.Busy != "" {
			state = "measures " + c.Busy
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", c.Name, labelsOf(c.Labels), cmp.Or(c.Address, "-"), c.CPUs, c.Machine, state)
	}
	return w.Flush()
}

// labelsOf writes labels as --labels reads them.
func labelsOf(labels map[string]string) string {
	var all []string
	for key, value := range labels {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return cmp.Or(strings.Join(all, ","), "-")
}

func (a *app) fleetTokenCommand() *cobra.Command {
	var name, role string
	cmd := a.finds(oneObject, &cobra.Command{
		Use: "token", Short: "Print a token of a fleet whose hub runs on this machine", Args: cobra.NoArgs,
		Long: `Token prints what lets an agent into a fleet, or with --role controller what lets
somebody measure with it from another machine. Who has the controller's may have
the agents start any trial: keep it as you keep a password.`,
		Example: `  WIRELAB_TOKEN=$(ssh hub wirelab fleet token) wirelab agent --labels role=client
  wirelab fleet token --role controller > fleet.token`,
	}, func(*cobra.Command, []string) (finding, error) {
		if !slices.Contains(protocol.Roles(), role) {
			return finding{}, usage(fmt.Errorf("--role %q: %s", role, spelling.Suggest(role, protocol.Roles())))
		}
		running, err := hub.FindHub(name)
		if err != nil {
			return finding{}, usage(err)
		}
		c, err := protocol.ReadTokenFile(hub.TokenFile(running.Dir, role))
		if err != nil {
			return finding{}, err
		}
		return printed(map[string]any{"project": c.Project, "role": role, "urls": c.URLs, "token": c.Token()}, line(c.Token())), nil
	})
	cmd.Flags().StringVar(&name, "fleet", "", "the fleet's `name` or URL (default: the only one that is up on this machine)")
	cmd.Flags().StringVar(&role, "role", protocol.RoleAgent, "for whom: an `agent`, or a controller")
	completeHubs(cmd)
	complete(cmd, "role", protocol.Roles())
	return cmd
}
