package fleet

import (
	"context"
	"fmt"
	"os"
	"time"

	"wirelab.dev/internal/data/record"
)

// Examined says whether this program could measure with the agents of a
type Examined struct {
	HubRoundTripNS int64           `json:"hub_round_trip_ns"`
	Agents         []ExaminedAgent `json:"agents"`
}

// ExaminedAgent is one agent, and whether this program could measure with it.
type ExaminedAgent struct {
	Name    string       `json:"name"`
	Version string       `json:"version"`
	Clock   record.Clock `json:"clock"`
	// Problem keeps it out of trials, Notice does not.
	Problem string `json:"problem,omitempty"`
	Notice  string `json:"notice,omitempty"`
}

// farWall is how far an agent's time of day is off before it is worth a word.
const farWall = time.Second

// Examine asks all agents for their clocks, and says of each whether this program could measure
// with it.
func (v *Visit) Examine(ctx context.Context) (Examined, error) {
	found := Examined{HubRoundTripNS: v.RoundTrip.Nanoseconds(), Agents: []ExaminedAgent{}}
	program, err := os.Executable()
	if err != nil {
		return found, err
	}
	own, err := HashOf(program)
	if err != nil {
		return found, err
	}
	for _, agent := range v.Check(ctx) {
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
