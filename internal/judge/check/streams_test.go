package check

import (
	"testing"

	"wirelab.dev/internal/data/record"
)

func TestStreamsAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		streams *record.Streams
		level   record.Level
		says    string
	}{
		"none": {nil, record.OK, "does not apply: the clients held no streams"},
		"open": {&record.Streams{Held: 3, Sequence: &record.Sequence{}}, record.OK, "all 3 streams stayed open"},
		"ended": {
			&record.Streams{Held: 10, Reopened: 46, ClosedNS: 20e6, Ends: []record.ErrorCount{{Code: "status OK", Count: 6}, {Code: "close code 1001 (going away)", Count: 40}}}, record.Warning,
			"streams ended 46 times (40 times close code 1001 (going away), 6 times status OK) and were reopened 46 times; they were closed for 20 ms in all, which is ",
		},
		"not reopened": {&record.Streams{Held: 1, FailedOpenings: 7, Ends: []record.ErrorCount{{Code: "x", Count: 1}}}, record.Warning, "7 attempts to open one again failed"},
		"missing": {
			&record.Streams{Held: 1000, Sequence: &record.Sequence{Missing: 1, Duplicate: 2, Reordered: 3, Streams: 1}}, record.Warning,
			"1 message never came, on 1 of 1,000 streams; 2 messages came more than once; 3 messages came after a later one",
		},
		"unmatched": {&record.Streams{Held: 1, Unmatched: 5}, record.Warning, "5 messages came when no call waited for them"},
		"unread":    {&record.Streams{Held: 1, Unread: 5}, record.Warning, "in 5 messages, an expression of --match, --sent-at or --sequence found no usable value"},
	} {
		r := sound(t)
		r.Streams = c.streams
		wantCheckSays(t, name, r, "streams", c.level, c.says)
	}
}

// One slow stream among 1,000 is named by its number, which users know.
func TestOneSlowStreamOfAThousandIsNamed(t *testing.T) {
	r := sound(t)
	r.Streams = &record.Streams{Held: 1000}
	for i := range 1000 {
		one := record.ConnectionCalls{Client: i, Requests: 20, SumNS: 20 * 1e6, P25NS: 9e5, P90NS: 15e5}
		if i == 617 {
			one.SumNS, one.P25NS, one.P90NS = 20*51e6, 505e5, 52e6
		}
		r.ByConnection = append(r.ByConnection, one)
	}
	wantCheckSays(t, "slow", r, "single-connections", record.Warning, "1 of 1000 streams (number 617) is 50 ms slower than the others: mean 51 ms against 1 ms")
	for i := range 7 {
		r.ByConnection[i] = r.ByConnection[617]
		r.ByConnection[i].Client = i
	}
	wantCheckSays(t, "several", r, "single-connections", record.Warning, "8 of 1000 streams (number 0, 1, 2, 3, 4, …) are 50 ms slower")
}

// A stream that is opened again on a new connection spoils no figure.
func TestReopenedStreamsMayConnect(t *testing.T) {
	r := sound(t)
	r.Connections.Opened += 5
	r.Connections.During = 5
	r.Streams = &record.Streams{Held: int64(r.Connections.Want), Reopened: 5}
	wantCheckSays(t, "reopened", r, "connections", record.OK, "5 of them in the window")
}
