package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/fleet/protocol"
)

// Examined says whether this program could measure with the agents of a
type Examined struct {
	HubRoundTripNS int64           `json:"hub_round_trip_ns"`
	Agents         []ExaminedAgent `json:"agents"`
}

// An ExaminedAgent is one agent, and whether this program could measure with it.
type ExaminedAgent struct {
	Name    string       `json:"name"`
	Version string       `json:"version"`
	Clock   record.Clock `json:"clock"`
	// Problem keeps it out of trials, Notice does not.
	Problem string `json:"problem,omitempty"`
	Notice  string `json:"notice,omitempty"`
}

// farWall is the error of an agent's time of day from which on it is mentioned.
const farWall = time.Second

// Examine asks all agents for their clocks, and says of each whether this program could measure
// with it.
func Examine(ctx context.Context, v *protocol.Visit) (Examined, error) {
	found := Examined{HubRoundTripNS: v.RoundTrip.Nanoseconds(), Agents: []ExaminedAgent{}}
	program, err := os.Executable()
	if err != nil {
		return found, err
	}
	own, err := HashOf(program)
	if err != nil {
		return found, err
	}
	for _, agent := range Check(ctx, v) {
		one := ExaminedAgent{Name: agent.Name, Version: agent.Version, Clock: agent.Clock}
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

// A Checked is an agent that was asked for its clock.
type Checked struct {
	protocol.Card

	Clock record.Clock
	Err   error // why there is no clock
}

// Check asks all agents for their clocks, a few at a time.
func Check(ctx context.Context, v *protocol.Visit) []Checked {
	found := make([]Checked, len(v.Cards))
	var asking sync.WaitGroup
	turns := make(chan struct{}, askedAtOnce)
	for i, card := range v.Cards {
		turns <- struct{}{}
		asking.Go(func() {
			defer func() { <-turns }()
			c, err := compareWith(ctx, v.Conn, v.Credentials, card.Name)
			if errors.Is(err, errGone) {
				err = errors.New("its card is there, but it hears nothing: it has just ended, or is connected to another hub")
			}
			found[i] = Checked{Card: card, Clock: clockBetween(c, c), Err: err}
		})
	}
	asking.Wait()
	return found
}
