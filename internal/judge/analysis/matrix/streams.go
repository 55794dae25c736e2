package matrix

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
)

// Streams holds the counts of a cell's held streams, over all trials, and how far streams differ.
type Streams struct {
	record.Streams
	PerStream *PerStream `json:"per_stream,omitempty"` // absent for one stream, or more than 1,024
}

// PerStream compares the streams of the trial with the slowest stream, by the calls in the window.
type PerStream struct {
	Fewest        int64   `json:"fewest"` // calls on a stream
	Most          int64   `json:"most"`
	FastestMeanUS float64 `json:"fastest_mean_us"` // least mean service time of a stream
	SlowestMeanUS float64 `json:"slowest_mean_us"` // mean time of a message on the slowest stream
	Slowest       int     `json:"slowest"`         // number of the slowest stream, from 0
}

// plusTrial adds the streams of a trial. Both may have none.
func (s *Streams) plusTrial(t Trial) *Streams {
	if t.Streams == nil {
		return s
	}
	if s == nil {
		s = &Streams{}
	}
	held := max(s.Held, t.Streams.Held) // the trials hold them one after the other
	s.Streams = s.Plus(*t.Streams)
	s.Held = held
	if one := perStream(t.ByConnection); one != nil && (s.PerStream == nil || one.SlowestMeanUS > s.PerStream.SlowestMeanUS) {
		s.PerStream = one
	}
	return s
}

func perStream(all []record.ConnectionCalls) *PerStream {
	all = slices.DeleteFunc(slices.Clone(all), func(c record.ConnectionCalls) bool { return c.Requests == 0 })
	if len(all) < 2 {
		return nil
	}
	mean := func(c record.ConnectionCalls) float64 { return float64(c.SumNS) / float64(c.Requests) / 1e3 }
	bySpeed := func(a, b record.ConnectionCalls) int { return cmp.Compare(mean(a), mean(b)) }
	byCalls := func(a, b record.ConnectionCalls) int { return cmp.Compare(a.Requests, b.Requests) }
	slowest := slices.MaxFunc(all, bySpeed)
	return &PerStream{
		Fewest: slices.MinFunc(all, byCalls).Requests, Most: slices.MaxFunc(all, byCalls).Requests,
		FastestMeanUS: mean(slices.MinFunc(all, bySpeed)), SlowestMeanUS: mean(slowest), Slowest: slowest.Client,
	}
}
