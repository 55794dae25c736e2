package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/plan"
)

func (a *app) fleetCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use:   "fleet",
		Short: "Measure with several machines: start a hub, list its agents, end the hub",
		Long: `A fleet is a group of machines that run trials. A hub, on any of them, connects
them; wirelab agent, on each measuring machine, obeys the orders of
whoever has the controller's token.

  wirelab fleet up --listen 0.0.0.0:4222         here; prints the command for the others
  wirelab agent --nats … --labels role=client    there, and role=server on another
  wirelab compare --fleet NAME                   here`,
		Example: `  wirelab fleet up --detach --agent role=server --agent 'role=client*2'
  wirelab fleet list
  wirelab fleet down`,
	}, a.fleetUpCommand(), a.fleetListCommand(), a.fleetCheckCommand(), a.fleetTokenCommand(), a.fleetRevokeCommand(), a.fleetPermissionsCommand(), a.fleetDownCommand())
}

type hubFlags struct {
	fleet     string
	tokenFile string
}

func (w *hubFlags) register(cmd *cobra.Command) {
	registerFleet(cmd, &w.fleet)
	cmd.Flags().StringVar(&w.tokenFile, "fleet-token", "", "`file` with the controller's token, if the hub is on another machine; or set WIRELAB_TOKEN")
}

// registerFleet adds --fleet to commands that work with a hub on this machine.
func registerFleet(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "fleet", "", "the fleet's `name` or URL (default: the only one that runs on this machine)")
	completeHubs(cmd)
}

func completeHubs(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("fleet", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		hubs, _ := hub.RunningHubs() // RunningHubs leaves out hubs with unreadable files
		return lists.Map(hubs, func(h hub.RunningHub) string { return h.Project }), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // a bug: the flag does not exist
	}
}

func (w *hubFlags) credentials() (*protocol.Credentials, error) {
	c, err := hub.ControllerCredentials(w.fleet, w.tokenFile)
	if err != nil {
		err = usageError(err)
	}
	return c, err
}

// connect connects to the hub and reads its list of agents. The caller must close the result.
func (w *hubFlags) connect(ctx context.Context) (*protocol.HubView, error) {
	c, err := w.credentials()
	if err != nil {
		return nil, err
	}
	return protocol.ReadHub(ctx, c)
}

func (a *app) fleetListCommand() *cobra.Command {
	var which hubFlags
	cmd := a.resultCommand("fleet-list", &cobra.Command{
		Use: "list", Short: "List the connected agents with their machines", Args: cobra.NoArgs,
		Example: `  wirelab fleet list
  wirelab fleet list --json | jq -r '.[].name'`,
	}, func(cmd *cobra.Command, _ []string) (commandResult, error) {
		seen, err := which.connect(cmd.Context())
		if err != nil {
			return commandResult{}, err
		}
		defer seen.Close()
		return commandResult{value: seen.Cards, words: func(w io.Writer) error { return printAgents(w, seen.Cards) }}, nil
	})
	which.register(cmd)
	return cmd
}

func printAgents(to io.Writer, cards []protocol.Card) error {
	if len(cards) == 0 {
		_, err := fmt.Fprintln(to, "no agents: start some with the command that wirelab fleet up prints")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "agent\tlabels\taddress\tCPUs\tprobes\tmachine\tstate")
	for _, c := range cards {
		state := "free"
		if c.Busy != "" {
			state = "measures " + c.Busy
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", c.Name, cmp.Or(protocol.Selector{Labels: c.Labels, Count: 1}.String(), "-"), cmp.Or(c.Address, "-"), c.CPUs, c.DescribeProbes(), c.Machine, state)
	}
	return w.Flush()
}

func (a *app) fleetTokenCommand() *cobra.Command {
	var which hubFlags
	var wanted fleet.TokenWanted
	cmd := a.resultCommand("fleet-token", &cobra.Command{
		Use: "token", Short: "Make a token that admits an agent, or a controller, to a fleet", Args: cobra.NoArgs,
		Long: `Token asks the hub for a new token. An agent's token admits one agent, once, and
ends after a day: --agents and --valid change that. With --role controller it
is for measuring with the fleet from another machine. A controller's token can make
agents start any trial: protect it like a password.`,
		Example: `  WIRELAB_TOKEN=$(ssh hub wirelab fleet token) wirelab agent --labels role=client
  wirelab fleet token --agents 8 --valid 1h > agents.token
  wirelab fleet token --role controller --name alice > fleet.token`,
	}, func(cmd *cobra.Command, _ []string) (commandResult, error) {
		request, err := wanted.Request()
		if err != nil {
			return commandResult{}, usageError(err)
		}
		own, err := which.credentials()
		if err != nil {
			return commandResult{}, err
		}
		c, err := fleet.MakeToken(cmd.Context(), own, request)
		if err != nil {
			return commandResult{}, err
		}
		return commandResult{value: fleet.NewToken{Project: c.Project, Role: wanted.Role, Name: c.Name, URLs: c.URLs, Token: c.Token()}, words: printLine(c.Token())}, nil
	})
	which.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&wanted.Role, "role", protocol.RoleAgent, "who will use the token: an `agent`, or a controller")
	flags.StringVar(&wanted.Name, "name", "", "the controller's `name`, by which it can be shut out")
	flags.IntVar(&wanted.Agents, "agents", 1, "`number` of agents that the token admits; 0 means any number")
	flags.DurationVar(&wanted.Valid, "valid", 24*time.Hour, "`time` in which the token can be used; 0 means for ever")
	flags.StringSliceVar(&wanted.Serve, "serve", nil, "address `ranges` where the agents' servers may listen, if the hub sees the agents at other addresses")
	setCompletions(cmd, "role", fleet.TokenRoles())
	return cmd
}

func (a *app) fleetRevokeCommand() *cobra.Command {
	var which hubFlags
	cmd := a.resultCommand("fleet-revoke", &cobra.Command{
		Use: "revoke NAME", Short: "Shut an agent or a controller out of a fleet", Args: cobra.ExactArgs(1),
		Example: `  wirelab fleet revoke c1`,
	}, func(cmd *cobra.Command, args []string) (commandResult, error) {
		own, err := which.credentials()
		if err != nil {
			return commandResult{}, err
		}
		err = fleet.Revoke(cmd.Context(), own, args[0])
		return commandResult{value: fleet.Revoked{Project: own.Project, Revoked: args[0]}, words: printLine(args[0] + " is shut out of the fleet " + own.Project)}, err
	})
	which.register(cmd)
	return cmd
}

func (a *app) fleetPermissionsCommand() *cobra.Command {
	var project, role, name string
	cmd := a.resultCommand("fleet-permissions", &cobra.Command{
		Use: "permissions", Short: "Print what a role may do at a NATS server of your own", Args: cobra.NoArgs,
		Example: `  wirelab fleet permissions --name lab --role agent --agent c1
  wirelab fleet permissions --name lab --role controller`,
	}, func(*cobra.Command, []string) (commandResult, error) {
		may, err := fleet.ReadPermissions(project, role, name)
		if err != nil {
			return commandResult{}, usageError(err)
		}
		return commandResult{value: may, words: func(w io.Writer) error { return fleet.PrintPermissions(w, may) }}, nil
	})
	flags := cmd.Flags()
	flags.StringVar(&project, "name", "lab", "the fleet's `name`")
	flags.StringVar(&role, "role", protocol.RoleAgent, "`role`: agent, controller, or prepare for wirelab fleet up --nats")
	flags.StringVar(&name, "agent", hub.LocalController, "the agent's `name`")
	setCompletions(cmd, "role", fleet.PermissionRoles())
	return cmd
}

func (a *app) fleetCheckCommand() *cobra.Command {
	var which hubFlags
	cmd := a.resultCommand("fleet-check", &cobra.Command{
		Use: "check", Short: "Ask every agent for its clock, and check whether it can measure", Args: cobra.NoArgs,
		Example: `  wirelab fleet check
  wirelab fleet check --json | jq '.agents[] | select(.problem)'`,
	}, func(cmd *cobra.Command, _ []string) (commandResult, error) {
		seen, err := which.connect(cmd.Context())
		if err != nil {
			return commandResult{}, err
		}
		defer seen.Close()
		found, err := fleet.Examine(cmd.Context(), seen)
		return commandResult{found, func(w io.Writer) error { return printAgentChecks(w, found) }, checkAgents(found)}, err
	})
	which.register(cmd)
	return cmd
}

func checkAgents(f fleet.Examination) error {
	if len(f.Agents) == 0 {
		return exitError{exitFailed, errors.New("no agents: start some with the command that wirelab fleet up prints")}
	}
	unfit := 0
	for _, agent := range f.Agents {
		if agent.Problem != "" {
			unfit++
		}
	}
	if unfit > 0 {
		return exitError{exitFailed, fmt.Errorf("%d of %d agents cannot measure: see their problems above", unfit, len(f.Agents))}
	}
	return nil
}

func printAgentChecks(to io.Writer, f fleet.Examination) error {
	fmt.Fprintf(to, "hub: answers within %v\n", time.Duration(f.HubRoundTripNS).Round(10*time.Microsecond))
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, agent := range f.Agents {
		state := fmt.Sprintf("its clock is known to ±%v", time.Duration(agent.Clock.ErrorNS).Round(time.Microsecond))
		if agent.Notice != "" {
			state += "; " + agent.Notice
		}
		if agent.Problem != "" {
			state = agent.Problem
		}
		fmt.Fprintf(w, "%s\t%s\n", agent.Name, state)
	}
	return w.Flush()
}

func (a *app) fleetDownCommand() *cobra.Command {
	var name string
	cmd := a.resultCommand("fleet-down", &cobra.Command{
		Use: "down", Short: "End a hub of this machine and the agents that it started", Args: cobra.NoArgs,
		Example: `  wirelab fleet down
  wirelab fleet down --fleet lab`,
	}, func(cmd *cobra.Command, _ []string) (commandResult, error) {
		running, err := hub.FindHub(name)
		if err != nil {
			return commandResult{}, usageError(err)
		}
		if err := running.End(cmd.Context()); err != nil {
			return commandResult{}, err
		}
		return commandResult{value: fleet.EndedHub{Project: running.Project, PID: running.PID}, words: printLine("the fleet " + running.Project + " is down")}, nil
	})
	registerFleet(cmd, &name)
	return cmd
}

// fleetFlags holds the flags that select the agents that measure instead of this machine.
type fleetFlags struct{ record.FleetWanted }

func (f *fleetFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Hub, "fleet", "", "measure on the agents of the fleet with this `name` or URL (see wirelab fleet)")
	flags.StringVar(&f.TokenFile, "fleet-token", "", "`file` with the controller's token, if the fleet's hub is on another machine")
	flags.StringVar(&f.Server, "server", "", "which `agent` runs the server, by its labels (default: role=server)")
	completeHubs(cmd)
	flags.StringVar(&f.Client, "client", "", "which `agents` run the clients, and how many agents, as in role=client*8 (default: role=client*, all of them)")
}

// joinFleet connects to a fleet as its controller, and leases the selected agents.
func (a *app) joinFleet(ctx context.Context, w *record.FleetWanted, program string, s *scenario.Scenario, targets map[string]string) (*fleet.Controller, error) {
	credentials, err := hub.ControllerCredentials(w.Hub, w.TokenFile)
	if err != nil {
		return nil, usageError(err)
	}
	agents, err := fleet.NewPlan(w)
	if err == nil {
		err = plan.CheckForFleet(s)
	}
	if err != nil {
		return nil, usageError(err)
	}
	agents.Worker, agents.Probes, agents.Report = program, plan.ProbesOf(s), func(line string) { fmt.Fprintln(a.stderr, line) }
	controller, err := fleet.NewController(ctx, credentials, agents)
	if err != nil {
		return nil, err
	}
	if err = controller.TakeFirst(ctx); err == nil {
		if err = fleet.CheckReach(controller.AgentElsewhere(), targets); err != nil {
			err = usageError(err)
		}
	}
	if err != nil {
		controller.Close()
		return nil, err
	}
	return controller, nil
}

func registerAllowProbes(cmd *cobra.Command, names *[]string, what string) {
	cmd.Flags().StringSliceVar(names, "allow-probes", nil, "`probes` that may observe "+what+", as in syscalls,cpu, or all (default: none)")
	setCompletions(cmd, "allow-probes", append(fleet.PossibleProbes(), "all"))
}

func (a *app) agentCommand() *cobra.Command {
	var f fleet.AgentRequest
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Let a fleet run its servers and clients on this machine",
		Long: `Agent joins a fleet (see wirelab fleet up, which prints this command with its
token) and follows the orders of the fleet's controller until Ctrl-C. It starts
the same server and client processes as a trial on one machine.

It starts only wirelab and the peers that were built here, which it identifies
by their hashes. It gives no shell, reads no files named in orders, and
dials no address outside --dial. Its workers end when they lose contact to the
controller for five seconds.

With --allow-probes, a trial may also observe the agent's own workers, and no
other process. Its owner then learns their system calls, their functions and
those of this machine's kernel, and counts of its processor. While such a trial runs,
a probe can slow the whole machine a little.`,
		Example: `  WIRELAB_TOKEN=wl2.… wirelab agent --nats tls://10.0.0.5:4222 --name c1 --labels role=client,zone=a
  wirelab agent --token-file token --labels role=server --listen 10.0.0.6 --cpus 2-7
  wirelab agent --token-file token --labels role=client --dial 10.0.0.0/24 --allow-probes syscalls,cpu`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			credentials, o, err := f.Read(a.stderr, build.Version())
			if err != nil {
				return usageError(err)
			}
			if err := fleet.RunAgent(cmd.Context(), credentials, o); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "%s has left the fleet %s\n", o.Name, credentials.Project)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Hub, "nats", "", "`URL` of the fleet's hub, as in tls://10.0.0.5:4222 (default: the URLs in the token)")
	flags.StringVar(&f.Token, "token", "", "the `token` that wirelab fleet up printed; other users can read it on the command line: prefer --token-file, or "+protocol.TokenVariable)
	flags.StringVar(&f.TokenFile, "token-file", "", "`file` with the token")
	flags.StringVar(&f.Name, "name", "", "the agent's `name` in the fleet (default: this machine's)")
	flags.StringVar(&f.Labels, "labels", "", "`labels` for choosing this agent, as in role=client,zone=a")
	flags.StringSliceVar(&f.Dial, "dial", nil, "address `ranges` that this agent's clients may dial, as in 10.0.0.0/8 (default: loopback, and the networks of this machine)")
	flags.StringVar(&f.Listen, "listen", "", "`address` that this agent's servers listen on (default: the address with the route to the hub)")
	flags.IntVar(&f.Port, "port", 0, "`port` of this agent's servers, if a firewall allows only one (default: any)")
	flags.StringVar(&f.CPUs, "cpus", "", "`CPUs` for this agent's workers, as in 2-7 (default: all)")
	registerAllowProbes(cmd, &f.AllowProbes, "this agent's workers")
	flags.StringVar(&f.Spool, "spool", "", "`directory` for samples until they are fetched (default: one in the folder for temporary files)")
	return cmd
}
