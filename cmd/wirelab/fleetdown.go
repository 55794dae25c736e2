package main

import (
	"github.com/spf13/cobra"

	"wirelab.dev/internal/run/fleet/hub"
)

func (a *app) fleetDownCommand() *cobra.Command {
	var name string
	cmd := a.finds(oneObject, &cobra.Command{
		Use: "down", Short: "End a hub of this machine and the agents that it started", Args: cobra.NoArgs,
		Example: `  wirelab fleet down
  wirelab fleet down --fleet lab`,
	}, func(cmd *cobra.Command, _ []string) (finding, error) {
		running, err := hub.FindHub(name)
		if err != nil {
			return finding{}, usage(err)
		}
		if err := running.End(cmd.Context()); err != nil {
			return finding{}, err
		}
		return printed(map[string]any{"project": running.Project, "pid": running.PID}, line("the fleet "+running.Project+" is down")), nil
	})
	cmd.Flags().StringVar(&name, "fleet", "", "the fleet's `name` or URL (default: the only one that is up on this machine)")
	completeHubs(cmd)
	return cmd
}
