package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/fleet"
)

// checkedFleet is what check found.
type checkedFleet struct {
	HubRoundTripNS int64          `json:"hub_round_trip_ns"`
	Agents         []checkedAgent `json:"agents"`
}

type checkedAgent struct {
	Name    string       `json:"name"`
	Version string       `json:"version"`
	Clock   record.Clock `json:"clock"`
	// Problem keeps it out of trials, Notice does not.
	Problem string `json:"problem,omitempty"`
	Notice  string `json:"notice,omitempty"`
}

func (a *app) fleetCheckCommand() *cobra.Command {
	var (
		which  whichFleet
		asJSON bool
	)
	cmd := &cobra.Command{
		Use: "check", Short: "Ask every agent for its clock, and see whether it could measure", Args: cobra.NoArgs,
		Example: `  wirelab fleet check
  wirelab fleet check --json | jq '.agents[] | select(.problem)'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			seen, err := which.look(cmd.Context())
			if err != nil {
				return err
			}
			defer seen.Close()
			found, err := checkFleet(seen.RoundTrip, seen.Check(cmd.Context()))
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(found)
			} else {
				err = a.printChecked(found)
			}
			if err != nil {
				return err
			}
			return found.verdict()
		},
	}
	which.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// farWall is how far an agent's time of day is off before it is worth a word.
const farWall = time.Second

// checkFleet says of each agent whether this program could measure with it.
func checkFleet(roundTrip time.Duration, agents []fleet.Checked) (checkedFleet, error) {
	found := checkedFleet{HubRoundTripNS: roundTrip.Nanoseconds(), Agents: []checkedAgent{}}
	program, err := os.Executable()
	if err != nil {
		return found, err
	}
	own, err := fleet.HashOf(program)
	if err != nil {
		return found, err
	}
	for _, agent := range agents {
		one := checkedAgent{Name: agent.Name, Version: agent.Version, Clock: agent.Clock}
		switch wall := time.Duration(agent.Clock.WallNS); {
		case agent.Err != nil:
			one.Problem = agent.Err.Error()
		case !agent.Has(own):
			one.Problem = "it has another build of wirelab than this one: copy this program there"
		case wall.Abs() > farWall:
			one.Notice = fmt.Sprintf("its time of day is %v off, which no figure depends on", wall.Round(time.Millisecond))
		}
		found.Agents = append(found.Agents, one)
	}
	return found, nil
}

func (f checkedFleet) verdict() error {
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

func (a *app) printChecked(f checkedFleet) error {
	fmt.Fprintf(a.stdout, "hub: answers within %v\n", time.Duration(f.HubRoundTripNS).Round(10*time.Microsecond))
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
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
