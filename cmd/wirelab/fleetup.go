package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

type fleetUpFlags struct {
	name, listen string
	advertise    []string
	agents       []string
	allowProbes  []string
	noTLS        bool
	detach       bool
	asJSON       bool
	cluster      hub.ClusterOptions
	keys         string
	own          hub.UserNATS // of --nats
	agentCreds   []string
	serve        []string
}

func (a *app) fleetUpCommand() *cobra.Command {
	var f fleetUpFlags
	cmd := &cobra.Command{
		Use: "up", Short: "Start a hub, until Ctrl-C or in the background, and print how agents join it", Args: cobra.NoArgs,
		Long: `Up starts a hub, which is a NATS server inside wirelab, and prints the line that
makes another machine an agent, with its token. On loopback, where it listens by
default, connections are unencrypted; elsewhere they use TLS, with a certificate
that the token identifies.

With --nats it starts no hub, and prepares your own NATS server, which needs JetStream.
Each agent needs a user of its own there. The commands fleet token, fleet revoke,
fleet down, and fleet list without --fleet-token do not find that server.`,
		Example: `  wirelab fleet up --listen 0.0.0.0:4222
  wirelab fleet up --detach --agent role=server --agent 'role=client*2'
  wirelab fleet up --nats tls://nats.example:4222 --creds user.creds --agent-creds c1=c1.creds`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agents, err := hub.ParseLocalAgents(f.agents)
			_, unknown := fleet.ParseAllowedProbes(f.allowProbes)
			if err := cmp.Or(err, unknown, f.check()); err != nil {
				return usageError(err)
			}
			switch {
			case len(f.own.URLs) > 0:
				return a.prepareNATS(cmd.Context(), &f)
			case f.detach:
				var r fleetUpReport
				if err := hub.StartDetached(cmd.Context(), f.name, backgroundArguments(cmd.Flags()), &r); err != nil {
					return err
				}
				return a.printFleetUp(&f, r)
			}
			return a.runHub(cmd.Context(), &f, agents)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *fleetUpFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "lab", "the fleet's `name`, which is part of its subjects")
	flags.StringVar(&f.listen, "listen", hub.DefaultListen, "`address` to listen on; 0.0.0.0:4222 for all addresses of this machine, port 0 for any free port")
	flags.StringSliceVar(&f.advertise, "advertise", nil, "`names` or addresses at which agents reach this machine, if wirelab cannot find them itself")
	flags.BoolVar(&f.noTLS, "no-tls", false, "no TLS, even beyond loopback: orders stay signed, but others on the network can read and forge results")
	flags.StringArrayVar(&f.agents, "agent", nil, "also start agents on this machine, with these `labels`, as in role=client*2 for two agents; repeatable")
	registerAllowProbes(cmd, &f.allowProbes, "the workers of --agent")
	flags.BoolVar(&f.detach, "detach", false, "run in the background; wirelab fleet down ends it")
	registerJSON(cmd, &f.asJSON, "fleet-up")
	flags.StringVar(&f.cluster.Name, "hub", "", "this hub's `name` in a cluster of three")
	flags.StringVar(&f.cluster.Listen, "cluster", "", "`address` to listen on for the cluster's other hubs")
	flags.StringSliceVar(&f.cluster.Routes, "route", nil, "`address` of another hub of the cluster")
	flags.StringVar(&f.keys, "keys", "", "`file` of the fleet's keys, the same for all hubs of a cluster (default: a file of this fleet's own)")
	flags.StringSliceVar(&f.own.URLs, "nats", nil, "prepare the NATS server at this `URL` instead of starting a hub")
	flags.StringVar(&f.own.CredsFile, "creds", "", "`file` with a user's credentials for --nats")
	flags.StringArrayVar(&f.agentCreds, "agent-creds", nil, "an agent's `NAME=FILE`, with its credentials for --nats; repeatable (see wirelab fleet permissions)")
	flags.StringSliceVar(&f.serve, "serve", nil, "address `ranges` where agents' servers may listen, for --nats")
	flags.StringVar(&f.own.RootFile, "cacert", "", "root certificate `file` of the NATS server of --nats (default: the system's)")
	flags.IntVar(&f.own.Replicas, "replicas", 1, "number of `copies` of all data in the NATS server of --nats")
	setCompletions(cmd, "agent", []string{"role=server", "role=client", "role=client*2"})
}

func (f *fleetUpFlags) check() error {
	if err := protocol.CheckProject(f.name); err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	for _, at := range f.own.URLs {
		if err := protocol.CheckURL(at); err != nil {
			return fmt.Errorf("--nats: %w", err)
		}
	}
	switch {
	case len(f.own.URLs) > 0 && f.own.CredsFile == "":
		return errors.New("--nats needs --creds: a .creds file, or a file with the seed of an nkey")
	case len(f.own.URLs) == 0 && (f.own.CredsFile != "" || len(f.agentCreds) > 0 || len(f.serve) > 0 || f.own.RootFile != ""):
		return errors.New("--creds, --agent-creds, --serve and --cacert need --nats: give the URL of the NATS server")
	case len(f.own.URLs) > 0 && len(f.agentCreds) == 0:
		return errors.New("--nats needs --agent-creds NAME=FILE for each agent: no agent gets the rights of --creds; `wirelab fleet permissions` prints what an agent needs")
	case len(f.own.URLs) > 0 && (f.detach || len(f.agents) > 0):
		return errors.New("--nats only prepares a NATS server, and starts nothing: leave out --detach and --agent")
	case (f.cluster.Name == "") != (f.cluster.Listen == ""):
		return errors.New("a hub of a cluster needs --hub, --cluster and --route: give all three")
	}
	return nil
}

func (f *fleetUpFlags) options(stateDir string) hub.HubOptions {
	o := hub.HubOptions{
		Project: f.name, Listen: f.listen, Advertise: f.advertise, StateDir: stateDir,
		KeysFile: f.keys, NoTLS: f.noTLS, Version: build.Version(), AllowProbes: f.allowProbes,
	}
	if f.cluster.Name != "" {
		o.Cluster = &f.cluster
	}
	return o
}

// A fleetUpReport describes a started fleet, and tells the user how to add agents.
type fleetUpReport struct {
	Project string   `json:"project"`
	URLs    []string `json:"urls"`
	TLS     bool     `json:"tls"`
	State   string   `json:"state"`
	PID     int      `json:"pid,omitempty"`
	Agents  []string `json:"agents,omitempty"` // names of the agents that this command started
	Join    string   `json:"join"`             // a command that makes another machine an agent
}

// runHub runs a hub until the context ends.
func (a *app) runHub(ctx context.Context, f *fleetUpFlags, agents []hub.LocalAgent) (err error) {
	stateDir, err := hub.StateDir(f.name)
	if err != nil {
		return err
	}
	o := f.options(stateDir)
	o.Log = a.stderr
	running, err := hub.StartHub(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Close()) }()
	if f.cluster.Name != "" {
		fmt.Fprintln(a.stderr, "waiting for the other hubs of the cluster")
		if err := running.JoinCluster(ctx); err != nil {
			return err
		}
	}
	started, err := running.StartAgents(ctx, agents)
	defer started.Stop()
	if err != nil {
		return err
	}
	token, err := running.MakeToken(ctx, protocol.TokenRequest{Role: protocol.RoleJoin, Agents: 1, ValidFor: 24 * time.Hour})
	if err != nil {
		return err
	}
	r := fleetUpReport{
		Project: f.name, URLs: running.URLs(), TLS: running.TLS(), State: stateDir, PID: os.Getpid(),
		Agents: hub.AgentNames(agents), Join: protocol.JoinCommand(token),
	}
	if err := a.printFleetUp(f, r); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// backgroundArguments returns the arguments that start the same hub as a background process.
func backgroundArguments(given *pflag.FlagSet) []string {
	args := []string{"fleet", "up", "--json"}
	given.Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, is := flag.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, value := range values {
			if flag.Name != "detach" && flag.Name != "json" {
				args = append(args, "--"+flag.Name+"="+value)
			}
		}
	})
	return args
}

func (a *app) printFleetUp(f *fleetUpFlags, r fleetUpReport) error {
	if f.asJSON {
		return a.printJSON(r)
	}
	how := "without TLS"
	if r.TLS {
		how = "with TLS"
	}
	fmt.Fprintf(a.stdout, "the fleet %s is up at %s, %s\n", r.Project, strings.Join(r.URLs, ", "), how)
	if len(r.Agents) > 0 {
		fmt.Fprintf(a.stdout, "agents on this machine: %s\n", strings.Join(r.Agents, ", "))
	}
	add := "To add another machine, run there"
	if !r.TLS && protocol.AreLoopback(r.URLs) {
		add = "To add an agent of this machine, run (other machines need --listen 0.0.0.0:4222)"
	}
	fmt.Fprintf(a.stdout, "\n%s, with role=server for the server:\n\n  %s\n", add, r.Join)
	fmt.Fprintf(a.stdout, "\nThe token admits one agent, within a day. For more: wirelab fleet token --agents 8\n")
	fmt.Fprintf(a.stdout, "\nTo measure, run here:\n\n  wirelab compare --fleet %s --server role=server --client 'role=client*'\n", r.Project)
	end := "Ctrl-C ends it."
	if f.detach {
		end = "wirelab fleet down --fleet " + r.Project + " ends it."
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s\n", end)
	return err
}

// prepareNATS prepares the user's own NATS server, and prints the path of the tokens.
func (a *app) prepareNATS(ctx context.Context, f *fleetUpFlags) error {
	stateDir, err := hub.StateDir(f.name)
	if err != nil {
		return err
	}
	f.own.Project, f.own.StateDir = f.name, stateDir
	wanted, err := fleet.ReadNATSWanted(f.own, f.agentCreds, f.serve)
	if err != nil {
		return usageError(err)
	}
	if err := hub.PrepareUserNATS(ctx, wanted); err != nil {
		return err
	}
	r := fleetUpReport{
		Project: f.name, URLs: f.own.URLs, State: stateDir, TLS: strings.HasPrefix(f.own.URLs[0], "tls:"),
		Join: "wirelab agent --token-file NAME.token --labels role=client",
	}
	if f.asJSON {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.stdout, "%s is prepared for the fleet %s\n", strings.Join(r.URLs, ", "), r.Project)
	_, err = fmt.Fprintf(a.stdout, "\nTo add a machine, copy the agent's token from %s, and run there:\n\n  %s\n\nTo measure, add:\n\n  --fleet-token %s\n",
		stateDir, r.Join, hub.TokenFile(stateDir, protocol.RoleController))
	return err
}
