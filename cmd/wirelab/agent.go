package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/protocol"
)

func (a *app) agentCommand() *cobra.Command {
	var f fleet.AgentRequest
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Lend this machine to a fleet: run the ends of trials that its controller orders",
		Long: `Agent joins a fleet (see wirelab fleet up, which prints this command with its
token) and starts the same server and client processes as a trial on one machine
does, when the fleet's controller orders it, until Ctrl-C.

It starts no program but this one and the peers that were built here, which it
knows by their hashes; it gives no shell, reads no files that an order names, and
dials no address outside --dial. Its workers end when nothing is heard of the
controller for five seconds.`,
		Example: `  WIRELAB_TOKEN=wl1.… wirelab agent --nats tls://10.0.0.5:4222 --name c1 --labels role=client,zone=a
  wirelab agent --token-file token --labels role=server --listen 10.0.0.6 --cpus 2-7
  wirelab agent --token-file token --labels role=client --dial 10.0.0.0/24`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			credentials, o, err := f.Read(a.stderr, version())
			if err != nil {
				return usage(err)
			}
			if err := fleet.RunAgent(cmd.Context(), credentials, o); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "%s has left the fleet %s\n", o.Name, credentials.Project)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Hub, "nats", "", "`URL` of the fleet's hub, as in tls://10.0.0.5:4222 (default: those in the token)")
	flags.StringVar(&f.Token, "token", "", "the `token` that wirelab fleet up printed; other users of this machine can see it here: better in --token-file, or in "+protocol.TokenVariable)
	flags.StringVar(&f.TokenFile, "token-file", "", "`file` that has the token")
	flags.StringVar(&f.Name, "name", "", "the agent's `name` in the fleet (default: this machine's)")
	flags.StringVar(&f.Labels, "labels", "", "`labels` that it is chosen by, as in role=client,zone=a")
	flags.StringSliceVar(&f.Dial, "dial", nil, "address `ranges` that its clients may dial, as in 10.0.0.0/8 (default: loopback, and the networks of this machine)")
	flags.StringVar(&f.Listen, "listen", "", "`address` that its servers listen on (default: the one that the hub is reached from)")
	flags.IntVar(&f.Port, "port", 0, "`port` of its servers, where a firewall lets only one pass (default: any)")
	flags.StringVar(&f.CPUs, "cpus", "", "`CPUs` for its workers, as in 2-7 (default: all)")
	flags.StringVar(&f.Spool, "spool", "", "`directory` for samples until they are fetched (default: one in the folder for temporary files)")
	return cmd
}
