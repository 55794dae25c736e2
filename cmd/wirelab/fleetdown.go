package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

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
			if err := endHub(cmd.Context(), hub); err != nil {
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

// endHub asks a hub to end and waits until it has. Its process number is that of whoever holds
// the state's lock.
func endHub(ctx context.Context, hub fleet.Running) error {
	const (
		patience = 30 * time.Second
		pause    = 20 * time.Millisecond
	)
	if err := syscall.Kill(hub.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the hub (process %d): %w", hub.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for hub.Runs() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the hub (process %d) was told to end, and has not within %v", hub.PID, patience)
		case <-time.After(pause):
		}
	}
	return nil
}
