package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"wirelab.dev/internal/fleet"
)

// checkedFleet is what check found.
type checkedFleet struct {
	HubRoundTripNS int64          `json:"hub_round_trip_ns"`
	Agents         []checkedAgent `json:"agents"`
}

type checkedAgent struct {
	Name    string `json:"name"`
	Hears   bool   `json:"hears"`
	SeenAgo int64  `json:"seen_ago_ns"` // by the clocks of the hub and of this machine
	Problem string `json:"problem,omitempty"`
}

func (a *app) fleetCheckCommand() *cobra.Command {
	var (
		which  whichFleet
		asJSON bool
	)
	cmd := &cobra.Command{
		Use: "check", Short: "Ask the hub and every agent whether they answer", Args: cobra.NoArgs,
		Example: `  wirelab fleet check
  wirelab fleet check --json | jq '.agents[] | select(.problem)'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := which.credentials()
			if err != nil {
				return usage(err)
			}
			h, err := which.openHub(cmd.Context())
			if err != nil {
				return err
			}
			defer h.conn.Close()
			found := checkedFleet{HubRoundTripNS: h.rtt.Nanoseconds(), Agents: checkAgents(cmd.Context(), h, c)}
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

// answerPatience limits the wait for one agent.
const answerPatience = 5 * time.Second

// checkAgents asks all at once. Here the clocks are to be compared, by the controller.
func checkAgents(ctx context.Context, h *openedHub, c *fleet.Credentials) []checkedAgent {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	found := make([]checkedAgent, len(h.cards))
	var asking sync.WaitGroup
	for i, card := range h.cards {
		asking.Go(func() {
			found[i] = checkedAgent{Name: card.Name, Hears: true, SeenAgo: time.Since(card.Seen).Nanoseconds()}
			_, err := h.conn.RequestWithContext(ctx, c.ClockSubject(card.Name), nil)
			switch {
			case err == nil:
				return
			case errors.Is(err, nats.ErrNoResponders):
				found[i].Problem = "its card is there, but it hears nothing: it has just ended, or is connected to another hub"
			default:
				found[i].Problem = "it does not answer: " + err.Error()
			}
			found[i].Hears = false
		})
	}
	asking.Wait()
	return found
}

func (f checkedFleet) verdict() error {
	if len(f.Agents) == 0 {
		return exitError{exitFailed, errors.New("no agents: start some by the line that wirelab fleet up prints")}
	}
	silent := 0
	for _, agent := range f.Agents {
		if !agent.Hears {
			silent++
		}
	}
	if silent > 0 {
		return exitError{exitFailed, fmt.Errorf("%d of %d agents do not answer", silent, len(f.Agents))}
	}
	return nil
}

func (a *app) printChecked(f checkedFleet) error {
	fmt.Fprintf(a.stdout, "hub: answers within %v\n", time.Duration(f.HubRoundTripNS))
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, agent := range f.Agents {
		state := "answers"
		if agent.Problem != "" {
			state = agent.Problem
		}
		fmt.Fprintf(w, "%s\t%s\n", agent.Name, state)
	}
	return w.Flush()
}
