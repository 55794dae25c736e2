package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/run/fleet"
)

func (a *app) fleetDownCommand() *cobra.Command {
	var (
		name   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use: "down", Short: "End a hub of this machine and the agents that it started", Args: cobra.NoArgs,
		Example: `  wirelab fleet down
  wirelab fleet down --fleet lab`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, err := fleet.FindHub(name)
			if err != nil {
				return usage(err)
			}
			if err := hub.End(cmd.Context()); err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(map[string]any{"project": hub.Project, "pid": hub.PID})
			}
			_, err = fmt.Fprintf(a.stdout, "the fleet %s is down\n", hub.Project)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "fleet", "", "the fleet's `name` or URL (default: the only one that is up on this machine)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	completeHubs(cmd)
	return cmd
}
