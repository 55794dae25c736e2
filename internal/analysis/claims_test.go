package analysis

import (
	"encoding/json"
	"testing"
	"time"
)

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
	}{{Compatible, 0.9}, {Smaller, 0.9}, {Compatible, 4.0 / 3}, {Compatible, 0.75 / 0.9}, {Refuted, 0.9 / 0.75}, {Refuted, 1}, {Unmeasured, 0}, {Unmeasured, 0}}
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
