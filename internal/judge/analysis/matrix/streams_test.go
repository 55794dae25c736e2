package matrix

import (
	"testing"

	"wirelab.dev/internal/data/record"
)

// Trials hold the same streams one after the other, and add up what happened on them. The slowest
// stream of all trials is named; streams without calls are not compared.
func TestStreamsOfSeveralTrials(t *testing.T) {
	trial := func(slowest int, meanNS int64) Trial {
		var r record.Record
		r.Streams = &record.Streams{Exchange: "answer", Held: 3, Sent: 10, Received: 9, Sequence: &record.Sequence{Missing: 1, Streams: 1}}
		r.ByConnection = []record.ConnectionCalls{
			{Client: slowest, Requests: 5, SumNS: 5 * meanNS}, {Client: 8, Requests: 50, SumNS: 50 * 1e6}, {Client: 9},
		}
		return Trial{Record: &r}
	}
	var none *Streams
	if got := none.plusTrial(Trial{Record: &record.Record{}}); got != nil {
		t.Errorf("without streams: %+v", got)
	}
	all := none.plusTrial(trial(3, 7e6)).plusTrial(trial(4, 9e6)).plusTrial(trial(5, 8e6))
	if all.Held != 3 || all.Sent != 30 || all.Received != 27 || all.Sequence.Missing != 3 || all.Exchange != "answer" {
		t.Errorf("%+v, %+v", all.Streams, all.Sequence)
	}
	if p := all.PerStream; *p != (PerStream{Fewest: 5, Most: 50, FastestMeanUS: 1000, SlowestMeanUS: 9000, Slowest: 4}) {
		t.Errorf("%+v", p)
	}
}
