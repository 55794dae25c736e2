package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/fleet/protocol"
)

// An Examination reports, for each agent of a fleet, whether this program can use the agent.
type Examination struct {
	HubRoundTripNS int64           `json:"hub_round_trip_ns"`
	Agents         []ExaminedAgent `json:"agents"`
}

// An ExaminedAgent reports whether this program can use an agent.
type ExaminedAgent struct {
	Name    string       `json:"name"`
	Version string       `json:"version"`
	Clock   record.Clock `json:"clock"`
	// Problem says why trials cannot use the agent. It is empty for a usable agent.
	Problem string `json:"problem,omitempty"`
	// Probes holds the probes that the agent's owner allows, by name.
	Probes map[string]protocol.CardProbe `json:"probes,omitempty"`
	// Notice is a remark about a usable agent.
	Notice string `json:"notice,omitempty"`
}

// minReportedWallError is the smallest error of an agent's wall clock that Examine reports.
const minReportedWallError = time.Second

// Examine reads the clocks of all agents, and reports whether this program can use each agent.
func Examine(ctx context.Context, v *protocol.HubView) (Examination, error) {
	found := Examination{HubRoundTripNS: v.RoundTrip.Nanoseconds(), Agents: []ExaminedAgent{}}
	program, err := os.Executable()
	if err != nil {
		return found, err
	}
	own, err := FileHash(program)
	if err != nil {
		return found, err
	}
	for _, checked := range ReadClocks(ctx, v) {
		one := ExaminedAgent{Name: checked.Name, Version: checked.Version, Clock: checked.Clock, Probes: checked.Probes}
		switch wall := time.Duration(checked.Clock.WallNS); {
		case checked.Err != nil:
			one.Problem = checked.Err.Error()
		case !checked.HasProgram(own):
			one.Problem = "the agent has another build of wirelab: copy this program to its machine"
		case wall.Abs() > minReportedWallError:
			one.Notice = fmt.Sprintf("the agent's time of day is %v off; wirelab's figures do not depend on the time of day", wall.Round(time.Millisecond))
		}
		for _, name := range slices.Sorted(maps.Keys(one.Probes)) {
			if problem := one.Probes[name].Problem; problem != "" {
				one.Notice = strings.TrimPrefix(fmt.Sprintf("%s; it cannot run the probe %s: %s", one.Notice, name, problem), "; ")
			}
		}
		found.Agents = append(found.Agents, one)
	}
	return found, nil
}

// maxClockComparisons bounds the number of simultaneous clock comparisons. If there were more, they
// would delay each other, and the delays would count as clock errors.
const maxClockComparisons = 16

// An AgentClock holds an agent's card and the state of its clock.
type AgentClock struct {
	protocol.Card

	Clock record.Clock
	Err   error // why the clock could not be read
}

// ReadClocks compares the clocks of all agents with this machine's clock.
func ReadClocks(ctx context.Context, v *protocol.HubView) []AgentClock {
	found := make([]AgentClock, len(v.Cards))
	forEach(v.Cards, maxClockComparisons, func(i int, card protocol.Card) {
		c, err := compareAgentClock(ctx, v.Conn, v.Credentials, card.Name)
		if errors.Is(err, errAgentGone) {
			err = errors.New("the agent is listed but does not answer: it has just ended, or is connected to another hub")
		}
		found[i] = AgentClock{Card: card, Clock: recordedClock(c, c), Err: err}
	})
	return found
}

// clockReply is an agent's answer to a clock question. CameNS and WentNS are the instants of the
// question and of the answer on the agent's monotonic clock. WallNS is the agent's wall clock.
type clockReply struct {
	CameNS int64 `json:"came_ns"`
	WentNS int64 `json:"went_ns"`
	WallNS int64 `json:"wall_ns"`
}

// A clockExchange is a clock question with its answer.
type clockExchange struct {
	sentNS, backNS int64 // when the exchange began and ended, on the controller's clock
	wallNS         int64 // the controller's wall clock when the answer came
	there          clockReply
}

// exchangesPerComparison is the number of exchanges in a comparison. A comparison uses only the
// shortest exchange, because in a longer one a single direction may have been delayed.
const exchangesPerComparison = 24

// A clockComparison holds the difference between an agent's clock and the controller's clock.
type clockComparison struct {
	offsetNS int64 // the agent's clock minus the controller's clock
	errorNS  int64 // the largest possible error of offsetNS
	wallNS   int64 // the agent's wall clock minus the controller's wall clock
	atNS     int64 // when the clocks were compared, on the controller's clock
}

// roundTrip returns how long the question and the answer together were in the network.
func (e clockExchange) roundTrip() int64 {
	return e.backNS - e.sentNS - (e.there.WentNS - e.there.CameNS)
}

func parseInstants(data []byte) (clockReply, error) {
	var there clockReply
	if err := json.Unmarshal(data, &there); err != nil {
		return there, fmt.Errorf("read the agent's clock: %w", err)
	}
	if there.WentNS < there.CameNS {
		return there, errors.New("the agent's clock went backwards between a question and its answer")
	}
	return there, nil
}

// compareExchanges makes a comparison from the shortest of one or more exchanges.
func compareExchanges(made []clockExchange) clockComparison {
	best := slices.MinFunc(made, func(a, b clockExchange) int { return cmp.Compare(a.roundTrip(), b.roundTrip()) })
	return clockComparison{
		offsetNS: (best.there.CameNS - best.sentNS + best.there.WentNS - best.backNS) / 2,
		errorNS:  max(0, best.roundTrip())/2 + 1,
		wallNS:   best.there.WallNS - best.wallNS,
		atNS:     best.backNS,
	}
}

// recordedClock makes the record of an agent's clock from comparisons before and after a trial.
func recordedClock(before, after clockComparison) record.Clock {
	drift := after.offsetNS - before.offsetNS
	return record.Clock{
		OffsetNS: after.offsetNS, DriftNS: drift, WallNS: after.wallNS,
		ErrorNS: max(before.errorNS, after.errorNS) + abs(drift),
	}
}

func abs(n int64) int64 { return max(n, -n) }

// clockReplyTimeout limits the wait for an answer to a clock question.
const clockReplyTimeout = 2 * time.Second

// compareAgentClock compares an agent's clock with this machine's clock.
func compareAgentClock(ctx context.Context, conn *nats.Conn, credentials *protocol.Credentials, agent string) (clockComparison, error) {
	var made []clockExchange
	for range exchangesPerComparison {
		asking, cancel := context.WithTimeout(ctx, clockReplyTimeout)
		sent := clock.Now()
		reply, err := askAgent(asking, conn, credentials.ClockSubject(agent), credentials.AnswerSubject(agent, nuid.Next()))
		back, wall := clock.Now(), time.Now().UnixNano()
		cancel()
		if err != nil {
			return clockComparison{}, fmt.Errorf("the agent %s did not answer a clock question: %w", agent, explainNoAnswer(err))
		}
		there, err := parseInstants(reply.Data)
		if err != nil {
			return clockComparison{}, fmt.Errorf("%s: %w", agent, err)
		}
		made = append(made, clockExchange{sentNS: sent, backNS: back, wallNS: wall, there: there})
	}
	return compareExchanges(made), nil
}

// askAgent asks an agent a question, which it answers on a subject of its own.
func askAgent(ctx context.Context, conn *nats.Conn, question, answer string) (*nats.Msg, error) {
	answers, err := conn.SubscribeSync(answer)
	if err != nil {
		return nil, err
	}
	defer answers.Unsubscribe() //nolint:errcheck // fails only if the connection is closed
	if err := conn.PublishRequest(question, answer, nil); err != nil {
		return nil, err
	}
	m, err := answers.NextMsgWithContext(ctx)
	if err == nil && len(m.Data) == 0 && m.Header.Get("Status") == noRespondersStatus {
		err = nats.ErrNoResponders
	}
	return m, err
}

// errAgentGone is the error for an agent that has left the fleet.
var errAgentGone = errors.New("the agent is no longer in the fleet")

func explainNoAnswer(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return errAgentGone
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer came in time")
	}
	return err
}

// forEach calls do for each item of a list, in up to most goroutines, and waits for all calls.
func forEach[T any](list []T, most int, do func(i int, one T)) {
	var doing sync.WaitGroup
	turns := make(chan struct{}, max(1, most))
	for i, one := range list {
		turns <- struct{}{}
		doing.Go(func() {
			do(i, one)
			<-turns
		})
	}
	doing.Wait()
}
