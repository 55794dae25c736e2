package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/fleet/protocol"
)

// instants is an agent's answer in an exchange: when the question came, and when the
// answer went, on its monotonic clock; and its time of day.
type instants struct {
	CameNS int64 `json:"came_ns"`
	WentNS int64 `json:"went_ns"`
	WallNS int64 `json:"wall_ns"`
}

// An exchange is one exchange of instants as the controller saw it.
type exchange struct {
	sentNS, backNS int64 // on the controller's monotonic clock
	wallNS         int64 // its time of day when the answer came
	there          instants
}

// exchanges is the number of exchanges in a comparison. Only the shortest counts: a delay of the
// others may have been on one way only.
const exchanges = 24

// A comparison says how an agent's clock differed from the controller's at one moment.
type comparison struct {
	offsetNS int64 // the agent's less the controller's
	errorNS  int64 // at most, whichever way was the longer one
	wallNS   int64 // the same of the time of day
	atNS     int64 // when, on the controller's clock
}

// roundTrip returns the time that an exchange spent on the way.
func (e exchange) roundTrip() int64 { return e.backNS - e.sentNS - (e.there.WentNS - e.there.CameNS) }

func parseInstants(data []byte) (instants, error) {
	var there instants
	if err := json.Unmarshal(data, &there); err != nil {
		return there, fmt.Errorf("read its instants: %w", err)
	}
	if there.WentNS < there.CameNS {
		return there, errors.New("its answer went before the question came")
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

// clockBetween describes, for the record, an agent's clock that was compared twice.
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
			return comparison{}, fmt.Errorf("%s did not answer when its clock was asked for: %w", agent, sayNoAnswer(err))
		}
		there, err := parseInstants(reply.Data)
		if err != nil {
			return comparison{}, fmt.Errorf("%s: %w", agent, err)
		}
		made = append(made, exchange{sentNS: sent, backNS: back, wallNS: wall, there: there})
	}
	return compare(made), nil
}
