package analysis

import (
	"encoding/json"
	"testing"
	"time"
)

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		low, high, claim float64
		want             Outcome
	}{
		{0.8, 0.9, 0.875, Holds},
		{0.5, 0.6, 0.875, Holds},
		{0.9, 0.95, 0.875, HoldsLess},
		{0.95, 1.02, 0.875, HoldsNot},
		{0.8, 1.1, 0.875, Open},
		{1.1, 1.2, 0.875, HoldsNot},
		{5, 8, 6, Holds},
		{7, 8, 6, Holds},
		{2, 3, 6, HoldsLess},
		{0.9, 1.1, 6, HoldsNot},
		{0.9, 7, 6, Open},
		{0.5, 0.6, 6, HoldsNot},
		{0.9, 0.99, 0, Holds},
		{1.01, 1.1, 0, HoldsNot},
		{0.9, 1.1, 0, Open},
	} {
		got := outcome(Figure{Value: (c.low + c.high) / 2, Interval: &Interval{Low: c.low, High: c.high}}, c.claim)
		if got != c.want {
			t.Errorf("%v to %v, claimed %v: %s, want %s", c.low, c.high, c.claim, got, c.want)
		}
	}
	if got := outcome(Figure{Value: 0.5}, 0.9); got != Open {
		t.Errorf("without an interval: %s", got)
	}
}

// TestClaimsAreJudged knows that one codec takes a tenth off a small call and a
// quarter off a large one.
func TestClaimsAreJudged(t *testing.T) {
	const us = time.Microsecond
	run := synthetic{seed: 3, noise: 0.01, repeats: 6, truths: []truth{
		{part: "small", variant: "grpc", clients: 1, mean: 100 * us},
		{part: "small", variant: "grpc:codec=vt1", clients: 1, mean: 90 * us},
		{part: "small", variant: "grpc", clients: 50, mean: 100 * us},
		{part: "small", variant: "grpc:codec=vt1", clients: 50, mean: 500 * us},
		{part: "large", variant: "grpc", clients: 1, mean: 200 * us},
		{part: "large", variant: "grpc:codec=vt1", clients: 1, mean: 150 * us},
	}}
	records := run.records(t)
	m := manifest(len(records))
	m.Scenario = json.RawMessage(`{"claims":[
		{"says":"a tenth","part":"small","of":"grpc:codec=vt1","against":"grpc","figure":"mean","ratio":0.9},
		{"says":"a half","part":"small","of":"grpc:codec=vt1","against":"grpc","figure":"mean","ratio":0.5},
		{"says":"more is done","part":"large","of":"grpc:codec=vt1","against":"grpc","figure":"throughput","ratio":1.3},
		{"says":"it grows","part":"large","below":"small","of":"grpc:codec=vt1","against":"grpc","figure":"mean"},
		{"says":"it shrinks","part":"small","below":"large","of":"grpc:codec=vt1","against":"grpc","figure":"mean"},
		{"says":"less CPU","part":"small","of":"grpc:codec=vt1","against":"grpc","figure":"server-cpu","ratio":0.5},
		{"says":"nobody looked","part":"small","of":"tcp","against":"grpc","figure":"mean"},
		{"says":"nobody asked","part":"small","of":"file:server=caddy","against":"grpc","figure":"mean"}
	],"parts":[{"stacks":["grpc"],"yardsticks":["file:server=caddy"]}]}`)
	s, err := Summarize(m, Judged{Records: records})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		outcome Outcome
		ratio   float64
	}{{Holds, 0.9}, {HoldsLess, 0.9}, {Holds, 4.0 / 3}, {Holds, 0.75 / 0.9}, {HoldsNot, 0.9 / 0.75}, {HoldsNot, 1}, {Unmeasured, 0}, {Unmeasured, 0}}
	for i, c := range s.Claims {
		if c.Outcome != want[i].outcome {
			t.Errorf("%q %s, want %s: %+v", c.Says, c.Outcome, want[i].outcome, c.Ratio)
		}
		if c.Unasked != (c.Says == "nobody asked") {
			t.Errorf("%q is about a yardstick: %v", c.Says, c.Unasked)
		}
		if c.Outcome == Unmeasured {
			if c.Ratio != nil || c.OfFigure != nil {
				t.Errorf("%q is not measured, and has %v of %v", c.Says, c.Ratio, c.OfFigure)
			}
			continue
		}
		within(t, c.Says, c.Ratio.Value, want[i].ratio, 0.03)
		if c.Pairs != 6 || c.Clients != 1 || c.OfFigure == nil {
			t.Errorf("%q rests on %d pairs with %d clients", c.Says, c.Pairs, c.Clients)
		}
	}
}
