package analysis

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
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
		{part: "large", variant: "grpc:gogc=off", clients: 1, mean: 200 * us},
	}}
	records := run.records(t)
	m := manifest(len(records))
	m.Scenario = json.RawMessage(`{"claims":[
		{"says":"a tenth","part":"small","find":"ratio(\"mean\", \"grpc:codec=vt1\", \"grpc\")","ratio":0.9},
		{"says":"a half","part":"large","find":"ratio(\"mean\", \"grpc:codec=vt1\", \"grpc\")","ratio":0.5},
		{"says":"more is done","part":"large","of":"grpc:codec=vt1","against":"grpc","figure":"throughput","ratio":1.3},
		{"says":"it grows","part":"large","below":"small","of":"grpc:codec=vt1","against":"grpc","figure":"mean"},
		{"says":"it shrinks","part":"small","below":"large","of":"grpc:codec=vt1","against":"grpc","figure":"mean"},
		{"says":"less CPU","part":"small","find":"ratio(\"server-cpu\", \"grpc:codec=vt1\", \"grpc\")","ratio":0.5},
		{"says":"nobody looked","part":"small","find":"ratio(\"mean\", \"tcp\", \"grpc\")"},
		{"says":"nobody asked","part":"small","find":"ratio(\"mean\", \"file:server=caddy\", \"grpc\")"},
		{"says":"much less","part":"large","find":"ratio(\"mean\", \"grpc\", \"grpc:codec=vt1\")","ratio":1.1},
		{"says":"about the same","part":"small","find":"ratio(\"mean\", \"grpc:codec=vt1\", \"grpc\")","at-least":0.8,"at-most":1.2},
		{"says":"not the same","part":"small","find":"ratio(\"mean\", \"grpc:codec=vt1\", \"grpc\", 0, 50)","at-least":0.8,"at-most":1.2},
		{"says":"the codec causes it","part":"large","find":"figure(\"mean\", it)","effect":"grpc","factors":[{"name":"the codec","stack":"grpc:codec=vt1"},{"name":"nothing","stack":"grpc:gogc=off"},{"name":"the wire","stack":"rest"}],"ratio":1.33},
		{"says":"damaged","part":"large","find":"figure(\"mean\", it)"},
		{"says":"they cross","part":"small","find":"crossover(by_clients(\"mean\", \"grpc\"), by_clients(\"mean\", \"grpc:codec=vt1\"))","ratio":10}
	],"parts":[{"stacks":["grpc"],"yardsticks":["file:server=caddy"]}]}`)
	s, err := Summarize(m, JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		outcome compare.Outcome
		ratio   float64
		reason  string
	}{
		{compare.Compatible, 0.9, ""},
		{compare.Smaller, 0.75, ""},
		{compare.Compatible, 4.0 / 3, ""},
		{compare.Compatible, 0.9 / 0.75, ""},
		{compare.Reversed, 0.75 / 0.9, ""},
		{compare.Refuted, 1, ""},
		{compare.Unmeasured, 0, "no mean of tcp in small"},
		{compare.Unmeasured, 0, "the run left out file:server=caddy: a warning says why, or --yardstick or --peers must name its program"},
		{compare.Larger, 4.0 / 3, ""},
		{compare.Compatible, 0.9, ""},
		{compare.Refuted, 5, ""},
		{compare.Compatible, 4.0 / 3, ""},
		{compare.Unmeasured, 0, "unknown name it (1:16)"},
		{compare.Refuted, 0, "the first line never overtakes the second, in each of 6 repeats"},
	}
	for i, c := range s.Claims {
		if c.Outcome != want[i].outcome {
			t.Errorf("%q %s, want %s: %+v", c.Says, c.Outcome, want[i].outcome, c.Ratio)
		}
		if c.Unasked != (c.Says == "nobody asked") {
			t.Errorf("%q is about a yardstick: %v", c.Says, c.Unasked)
		}
		if c.Reason != want[i].reason {
			t.Errorf("%q: %q, want %q", c.Says, c.Reason, want[i].reason)
		}
		if want[i].ratio == 0 {
			if c.Ratio != nil {
				t.Errorf("%q comes to %v", c.Says, c.Ratio)
			}
			continue
		}
		within(t, c.Says, c.Ratio.Value, want[i].ratio, 0.03)
		if c.Pairs != 6 || len(c.Figures) < 2 || c.Figures[0].Value == nil {
			t.Errorf("%q rests on %d repeats of %+v", c.Says, c.Pairs, c.Figures)
		}
	}
	if got, want := s.Claims[11].Find, `(figure("mean", "grpc")) / (figure("mean", "grpc:codec=vt1"))`; got != want {
		t.Errorf("an old claim about a cause is %s, want %s", got, want)
	}
}

// TestLaterLooksJudgeByAllTrials looks at claims twice. The first look decides which claims are
// repeated; the second uses all trials of every claim, so that lines of the same cells agree.
func TestLaterLooksJudgeByAllTrials(t *testing.T) {
	const us = time.Microsecond
	run := synthetic{seed: 5, noise: 0.05, repeats: 8, truths: []truth{
		{part: "p", variant: "grpc", clients: 1, mean: 100 * us},
		{part: "p", variant: "tcp", clients: 1, mean: 20 * us},
		{part: "p", variant: "rest", clients: 1, mean: 80 * us},
	}}
	records := run.records(t)
	m := manifest(len(records))
	m.Scenario = json.RawMessage(`{"claims":[
		{"says":"plain","part":"p","find":"ratio(\"mean\", \"grpc\", \"tcp\")","ratio":2},
		{"says":"close","part":"p","find":"ratio(\"mean\", \"grpc\", \"rest\")","ratio":1.25},
		{"says":"missing","part":"p","find":"ratio(\"mean\", \"grpc\", \"rest\", 64, 500)"}]}`)
	m.Until = &record.Until{Claims: true, Begun: 1, Looks: []record.InterimLook{{Repeats: 3, Level: 0.02}, {Repeats: 8, Level: 0.03}}}
	upTo := func(repeats int) JudgedTrials {
		return JudgedTrials{Records: slices.DeleteFunc(slices.Clone(records), func(r *record.Record) bool { return r.Repeat > repeats })}
	}
	found, err := compare.EvaluateLook(m, upTo(3).Records)
	if err != nil {
		t.Fatal(err)
	}
	if found.Of != 3 || found.Open != 2 || !slices.Equal(found.Claims, []compare.OpenClaim{{Index: 1, Needed: found.Claims[0].Needed}, {Index: 2, Needed: 9}}) {
		t.Errorf("the first look: %+v", found)
	}
	m.Until.Begun = 2
	s, err := Summarize(m, upTo(8), insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Claims[0]; c.Outcome != compare.Larger || c.Pairs != 8 {
		t.Errorf("a claim that stood: %s by %d repeats", c.Outcome, c.Pairs)
	}
	if c := s.Claims[1]; c.Pairs != 8 {
		t.Errorf("a claim that was open: %s by %d repeats", c.Outcome, c.Pairs)
	}
}

// The ratios of a study's blocks show how much one of them scatters. A claim about one gets a narrower
// interval from them, which holds the truth as often as it says.
func TestAClaimLearnsFromTheRatiosOfAllBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("summarizes 80 runs, which takes seconds")
	}
	const runs, us = 40, time.Microsecond
	covered, width := map[bool]int{}, map[bool]float64{}
	for seed := range uint64(runs) {
		var truths []truth
		for clients := 1; clients <= 12; clients++ {
			truths = append(truths, truth{part: "p", variant: "a", clients: clients, mean: 200 * us}, truth{part: "p", variant: "b", clients: clients, mean: 100 * us})
		}
		for _, inBlocks := range []bool{false, true} {
			c := contest{
				claims: `{"says":"twice","part":"p","find":"ratio(\"mean\", \"a\", \"b\", 0, 1)","ratio":2}`,
				run:    synthetic{seed: seed, noise: 0.03, repeats: 3, truths: truths},
				change: func(r *record.Record) {
					if inBlocks {
						r.Block = r.Repeat*100 + r.Cell.Clients
					}
				},
			}.judge(t)[0]
			if c.Ratio.Interval.Low <= 2 && c.Ratio.Interval.High >= 2 {
				covered[inBlocks]++
			}
			width[inBlocks] += math.Log(c.Ratio.Interval.High / c.Ratio.Interval.Low)
		}
	}
	for inBlocks, n := range covered {
		if n < runs-5 { // by chance 1 in 70; the seeds are fixed
			t.Errorf("in blocks %v: %d of %d intervals hold the truth", inBlocks, n, runs)
		}
	}
	if width[true] > 0.7*width[false] {
		t.Errorf("intervals in blocks are %v wide, others %v", width[true]/runs, width[false]/runs)
	}
}
