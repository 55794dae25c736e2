package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/run/fleet"
)

func (a *app) fleetCheckCommand() *cobra.Command {
	var which whichFleet
	cmd := a.finds(oneObject, &cobra.Command{
		Use: "check", Short: "Ask every agent for its clock, and see whether it could measure", Args: cobra.NoArgs,
		Example: `  wirelab fleet check
  wirelab fleet check --json | jq '.agents[] | select(.problem)'`,
	}, func(cmd *cobra.Command, _ []string) (finding, error) {
		seen, err := which.look(cmd.Context())
		if err != nil {
			return finding{}, err
		}
		defer seen.Close()
		found, err := fleet.Examine(cmd.Context(), seen)
		return finding{found, func(w io.Writer) error { return printChecked(w, found) }, checkFit(found)}, err
	})
	which.register(cmd)
	return cmd
}

// checkFit fails where an agent cannot measure, or there is none.
func checkFit(f fleet.Examined) error {
	if len(f.Agents) == 0 {
		return exitError{exitFailed, errors.New("no agents: start some by the line that wirelab fleet up prints")}
	}
	unfit := 0
	for _, agent := range f.Agents {
		if agent.Problem != "" {
			unfit++
		}
	}
	if unfit > 0 {
		return exitError{exitFailed, fmt.Errorf("%d of %d agents cannot measure", unfit, len(f.Agents))}
	}
	return nil
}

func printChecked(to io.Writer, f fleet.Examined) error {
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
