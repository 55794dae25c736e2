package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/fleet/protocol"
)

// Examined says whether this program could measure with the agents of a fleet.
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

// farWall is the smallest error of an agent's time of day that is mentioned.
const farWall = time.Second

// Examine asks all agents for their clocks, and reports for each agent whether this program could
// measure with it.
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
	for _, checked := range Check(ctx, v) {
		one := ExaminedAgent{Name: checked.Name, Version: checked.Version, Clock: checked.Clock}
		switch wall := time.Duration(checked.Clock.WallNS); {
		case checked.Err != nil:
			one.Problem = checked.Err.Error()
		case !checked.Has(own):
			one.Problem = "it has another build of wirelab than this one: copy this program there"
		case wall.Abs() > farWall:
			one.Notice = fmt.Sprintf("its time of day is %v off, which changes no figure", wall.Round(time.Millisecond))
		}
		found.Agents = append(found.Agents, one)
	}
	return found, nil
}

// askedAtOnce bounds the agents whose clocks are compared at the same time. More would wait for
// one another, and the waits would look like an error of their clocks.
const askedAtOnce = 16

// A Checked is an agent whose clock was asked for.
type Checked struct {
	protocol.Card

	Clock record.Clock
	Err   error // why there is no clock
}

// Check asks all agents for their clocks, a few at a time.
func Check(ctx context.Context, v *protocol.Visit) []Checked {
	found := make([]Checked, len(v.Cards))
	forEach(v.Cards, askedAtOnce, func(i int, card protocol.Card) {
		c, err := compareWith(ctx, v.Conn, v.Credentials, card.Name)
		if errors.Is(err, errGone) {
			err = errors.New("it has a card and does not answer: it has just ended, or is connected to another hub")
		}
		found[i] = Checked{Card: card, Clock: clockBetween(c, c), Err: err}
	})
	return found
}

// instants is an agent's answer in an exchange: the instants at which the question came and the
// answer went, on its monotonic clock, and its time of day.
type instants struct {
	CameNS int64 `json:"came_ns"`
	WentNS int64 `json:"went_ns"`
	WallNS int64 `json:"wall_ns"`
}

// An exchange is one exchange of instants from the controller's side.
type exchange struct {
	sentNS, backNS int64 // on the controller's monotonic clock
	wallNS         int64 // its time of day when the answer came
	there          instants
}

// exchanges is the number of exchanges in a comparison. Only the shortest counts: a longer one may
// have been delayed in one direction only.
const exchanges = 24

// A comparison says how an agent's clock differed from the controller's at one moment.
type comparison struct {
	offsetNS int64 // the agent's clock less the controller's
	errorNS  int64 // the bound of the error, for any split of the round trip
	wallNS   int64 // the difference of the times of day
	atNS     int64 // instant of the comparison, on the controller's clock
}

// roundTrip returns the time that the messages of an exchange took on the way.
func (e exchange) roundTrip() int64 { return e.backNS - e.sentNS - (e.there.WentNS - e.there.CameNS) }

func parseInstants(data []byte) (instants, error) {
	var there instants
	if err := json.Unmarshal(data, &there); err != nil {
		return there, fmt.Errorf("read its instants: %w", err)
	}
	if there.WentNS < there.CameNS {
		return there, errors.New("its answer was sent before the question came")
	}
	return there, nil
}

// compare makes a comparison of some exchanges, at least one.
func compare(made []exchange) comparison {
	best := slices.MinFunc(made, func(a, b exchange) int { return cmp.Compare(a.roundTrip(), b.roundTrip()) })
	return comparison{
		offsetNS: (best.there.CameNS - best.sentNS + best.there.WentNS - best.backNS) / 2,
		errorNS:  max(0, best.roundTrip())/2 + 1,
		wallNS:   best.there.WallNS - best.wallNS,
		atNS:     best.backNS,
	}
}

// clockBetween describes an agent's clock in the form of records, from two comparisons.
func clockBetween(before, after comparison) record.Clock {
	drift := after.offsetNS - before.offsetNS
	return record.Clock{
		OffsetNS: after.offsetNS, DriftNS: drift, WallNS: after.wallNS,
		ErrorNS: max(before.errorNS, after.errorNS) + abs(drift),
	}
}

func abs(n int64) int64 { return max(n, -n) }

// exchangePatience limits the wait for one answer.
const exchangePatience = 2 * time.Second

// compareWith compares an agent's clock with this machine's.
func compareWith(ctx context.Context, conn *nats.Conn, credentials *protocol.Credentials, agent string) (comparison, error) {
	var made []exchange
	for range exchanges {
		asking, cancel := context.WithTimeout(ctx, exchangePatience)
		sent := clock.Now()
		reply, err := conn.RequestWithContext(asking, credentials.ClockSubject(agent), nil)
		back, wall := clock.Now(), time.Now().UnixNano()
		cancel()
		if err != nil {
			return comparison{}, fmt.Errorf("%s did not answer a question for its clock: %w", agent, sayNoAnswer(err))
		}
		there, err := parseInstants(reply.Data)
		if err != nil {
			return comparison{}, fmt.Errorf("%s: %w", agent, err)
		}
		made = append(made, exchange{sentNS: sent, backNS: back, wallNS: wall, there: there})
	}
	return compare(made), nil
}

// errGone is the error of an agent that the hub no longer has.
var errGone = errors.New("it is no longer in the fleet")

func sayNoAnswer(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return errGone
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer came in time")
	}
	return err
}

// forEach calls do for each item of a list, for at most most of them at a time, and waits for all.
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
