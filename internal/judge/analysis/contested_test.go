package analysis

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/check"
)

// A contest holds a claim whose verdict a reader contested, the figures that led to it, and the
// right verdict.
type contest struct {
	name      string
	claims    string // as in a manifest
	published bool
	until     *record.Until
	run       synthetic
	change    func(*record.Record) // changes the record of each trial
	want      compare.Outcome
	reason    string
	check     func(*testing.T, compare.Claim)
}

const us, ms = time.Microsecond, time.Millisecond

// TestContestedVerdicts stages what a reader contested in the verdicts of real runs.
func TestContestedVerdicts(t *testing.T) {
	pair := func(a, b time.Duration) []truth {
		return []truth{{part: "p", variant: "a", clients: 48, mean: a}, {part: "p", variant: "b", clients: 48, mean: b}}
	}
	warn := func(check, detail string) func(*record.Record) {
		return func(r *record.Record) {
			r.Checks = append(r.Checks, record.Check{Name: check, Level: record.Warning, Detail: detail})
		}
	}
	few := func(requests int64) func(*record.Record) { // in a window of 400 ms, of 4 clients in step
		return func(r *record.Record) {
			r.WindowNS, r.Requests, r.Completed, r.InFlight = 400e6, requests, requests, 4
		}
	}
	bound := func(busy float64) func(*record.Record) {
		return func(r *record.Record) { r.Client.Busy, r.Server.Busy = new(busy), new(0.92) }
	}
	rate := `"find":"figure(\"throughput\", \"a\") * 16777216 * 8 / 1000000000"`
	for _, c := range []contest{
		{
			name: "1: an effect the other way round is reversed, also after a first look that saw less", want: compare.Reversed,
			claims: `{"says":"47 times fewer","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":47}`,
			until:  &record.Until{Claims: true, Begun: 2, Looks: []record.InterimLook{{Repeats: 3, Level: 0.0167}, {Repeats: 9, Level: 0.0333}}},
			run:    synthetic{seed: 2, noise: 0.4, repeats: 9, truths: pair(41*us, 100*us)},
			check: func(t *testing.T, c compare.Claim) {
				if c.Pairs != 9 || c.Ratio.Interval.High > 1/1.1 {
					t.Errorf("%d repeats, %+v", c.Pairs, c.Ratio.Interval)
				}
			},
		},
		{
			name: "2: a count of 12 has the interval of a count", want: compare.Underpowered,
			claims: `{"says":"fills the link","part":"p",` + rate + `,"at-least":4.5}`,
			run:    synthetic{seed: 1, repeats: 3, truths: pair(ms, ms)}, change: few(12),
			check: func(t *testing.T, c compare.Claim) {
				if i := c.Ratio.Interval; i.Low > c.Ratio.Value*11/12 || i.High < c.Ratio.Value*13/12 {
					t.Errorf("12 requests give %v (%v to %v)", c.Ratio.Value, i.Low, i.High)
				}
			},
		},
		{
			name: "3: a link is not judged by a sender that is slower than another", want: compare.NotTested,
			reason: "needs bare TCP that carries no less than gRPC: at least 1, here 0.667",
			claims: `{"says":"the link can be filled","part":"p",` + rate + `,"at-least":4.5,"needs":{"says":"bare TCP that carries no less than gRPC","find":"ratio(\"throughput\", \"a\", \"b\")","at-least":1}}`,
			run:    synthetic{seed: 1, repeats: 3, truths: pair(ms, ms)},
			change: func(r *record.Record) {
				few(12)(r)
				if r.Cell.Variant == "a" {
					few(8)(r)
				}
			},
		},
		{
			name: "4: a cold process tests nothing", want: compare.NotTested,
			reason: "not warm: a in p, 48 clients: the throughput was not steady after 410 ms",
			claims: `{"says":"less CPU","part":"p","find":"ratio(\"cpu\", \"a\", \"b\")","at-most":1}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(ms, ms)}, change: warn("settled", "the throughput was not steady after 410 ms"),
		},
		{
			name: "5: fewer connections than ports cannot exhaust them", want: compare.NotTested,
			reason: "needs more connections than ports: at least 28232, here 600",
			claims: `{"says":"it collapses","part":"p","find":"figure(\"answered\", \"a\")","ratio":0.0004,"needs":{"says":"more connections than ports","find":"figure(\"connections\", \"a\")","at-least":28232}}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(ms, ms)}, change: func(r *record.Record) { r.Connections.During = 600 },
		},
		{
			name: "5: with enough connections, a share of 1 has the interval of a count", want: compare.Refuted,
			claims: `{"says":"it collapses","part":"p","find":"figure(\"answered\", \"a\")","ratio":0.0004}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(ms, ms)},
			check: func(t *testing.T, c compare.Claim) {
				if i := c.Ratio.Interval; !(i.Low < 0.9995) {
					t.Errorf("1,000 of 1,000 requests give %v to %v", i.Low, i.High)
				}
			},
		},
		{
			name: "6: a server at its limit does not serialise", want: compare.NotTested,
			reason: "needs a server that its CPU does not limit: at most 0.5, here 0.92",
			claims: `{"says":"it serialises","part":"p","find":"ratio(\"throughput\", \"a\", \"b\")","at-most":1.1,"needs":{"says":"a server that its CPU does not limit","find":"figure(\"busy\", \"a\")","at-most":0.5}}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(ms, ms)}, change: bound(0.5),
		},
		{
			name: "7: that no rival is as strong is refuted by a stronger one", want: compare.Refuted,
			claims: `{"says":"nothing else does as much","part":"p","find":"min(figure(\"tail\", \"c\"), figure(\"tail\", \"d\"), figure(\"tail\", \"e\")) / figure(\"tail\", \"b\")","at-least":1}`,
			run: synthetic{seed: 1, noise: 0.1, repeats: 5, truths: []truth{
				{part: "p", variant: "a", clients: 48, mean: ms, tail: 80},
				{part: "p", variant: "b", clients: 48, mean: ms, tail: 9},
				{part: "p", variant: "c", clients: 48, mean: ms, tail: 2.0},
				{part: "p", variant: "d", clients: 48, mean: ms, tail: 9.0},
				{part: "p", variant: "e", clients: 48, mean: ms, tail: 80},
			}},
		},
		{
			name: "8: a client at its limit cannot show what more connections bring", want: compare.NotTested,
			reason: "the client was the limit: a in p, 48 clients: the client used 96 % of its CPUs",
			claims: `{"says":"4.5 times","part":"p","find":"ratio(\"throughput\", \"a\", \"b\")","ratio":4.5}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(100*us, 40*us)}, change: warn("generator-bound", "the client used 96 % of its CPUs"),
		},
		{
			name: "8: a difference that a client at its limit shows all the same stands", want: compare.Larger,
			claims: `{"says":"4.5 times","part":"p","find":"ratio(\"throughput\", \"a\", \"b\")","ratio":4.5}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(40*us, 400*us)}, change: warn("generator-bound", "the client used 96 % of its CPUs"),
		},
		{
			name: "8: two ends at their limits hide nothing", want: compare.Smaller,
			claims: `{"says":"4.5 times","part":"p","find":"ratio(\"throughput\", \"a\", \"b\")","ratio":4.5}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(40*us, 100*us)},
			change: func(r *record.Record) {
				warn("generator-bound", "the client used 96 % of its CPUs")(r)
				r.Server.Busy = new(0.95)
			},
		},
		{
			name: "8: one repeat does not tell whether there is a difference", want: compare.Underpowered,
			claims: `{"says":"4.5 times","part":"p","find":"ratio(\"throughput\", \"a\", \"b\")","ratio":4.5}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 1, truths: pair(40*us, 400*us)}, change: warn("generator-bound", "the client used 96 % of its CPUs"),
		},
		{
			name: "8: a server at the limit of its one CPU says nothing of 32", want: compare.NotTested,
			reason: "needs CPU to spare at both ends: at most 0.9, here 0.92",
			claims: `{"says":"one connection","part":"p","find":"figure(\"mean\", it)","effect":"a","factors":[{"name":"more","stack":"b"}],"needs":{"says":"CPU to spare at both ends","find":"figure(\"busy\", it)","at-most":0.9}}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(ms, 2*ms)}, change: bound(0.5),
		},
		{
			name: "9: an effect whose interval holds 1 is not seen", want: compare.NotSeen,
			claims: `{"says":"1.9 times","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":1.9}`,
			run:    synthetic{seed: 4, noise: 0.08, repeats: 4, truths: pair(105*us, 100*us)},
		},
		{
			name: "the estimate is the quotient of the tables' figures, also if a repeat lost a trial", want: compare.Smaller,
			claims: `{"says":"3 times","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":3}`,
			run:    synthetic{seed: 4, noise: 0.05, repeats: 6, truths: pair(150*us, 100*us)},
			change: func(r *record.Record) {
				if r.Cell.Variant == "a" && r.Repeat%3 == 0 {
					r.Failure = "gone"
				}
			},
			check: func(t *testing.T, c compare.Claim) {
				within(t, "the claim", c.Ratio.Value, c.Figures[0].Value.Value/c.Figures[1].Value.Value, 1e-9)
				if c.Pairs != 4 {
					t.Errorf("%d repeats", c.Pairs)
				}
			},
		},
		{
			name: "10: no measurement decides about impossible figures", want: compare.NotTested,
			reason: "needs published figures that agree",
			claims: `{"says":"a P95 below the mean","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":0.305,"needs":{"says":"published figures that agree"}}`,
			run:    synthetic{seed: 1, noise: 0.01, repeats: 3, truths: pair(170*us, 100*us)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := c.judge(t)[0]
			if claim.Outcome != c.want || claim.Reason != c.reason {
				t.Errorf("%s (%s): %+v; want %s (%s)", claim.Outcome, claim.Reason, claim.Ratio, c.want, c.reason)
			}
			if c.check != nil {
				c.check(t, claim)
			}
		})
	}
}

func (c contest) judge(t *testing.T) []compare.Claim {
	t.Helper()
	records := c.run.records(t)
	for _, r := range records {
		if c.change != nil {
			c.change(r)
		}
	}
	m := manifest(len(records))
	m.Until = c.until
	published := ""
	if c.published {
		published = `"published":"kernel-study",`
	}
	m.Scenario = json.RawMessage(`{` + published + `"claims":[` + c.claims + `],"parts":[{"stacks":["a","b"]}]}`)
	s, err := Summarize(m, JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return s.Claims
}

// Contest 11: lines of the same cells rest on the same repeats, although one of them was decided at
// the first look.
func TestLinesOfTheSameCellsAgree(t *testing.T) {
	claims := contest{
		claims: `{"says":"clear","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":2},
			{"says":"close","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":3}`,
		until: &record.Until{Claims: true, Begun: 2, Looks: []record.InterimLook{{Repeats: 3, Level: 0.02}, {Repeats: 5, Level: 0.03}}},
		run:   synthetic{seed: 7, noise: 0.05, repeats: 5, truths: []truth{{part: "p", variant: "a", clients: 1, mean: 300 * us}, {part: "p", variant: "b", clients: 1, mean: 100 * us}}},
	}.judge(t)
	a, b := claims[0], claims[1]
	if a.Pairs != 5 || b.Pairs != 5 || a.Figures[0].Value.Value != b.Figures[0].Value.Value || math.Abs(a.Ratio.Value-b.Ratio.Value) > 1e-9 {
		t.Errorf("%d repeats of %v, and %d of %v", a.Pairs, a.Figures[0].Value, b.Pairs, b.Figures[0].Value)
	}
}

// The claims of a study and wirelab's own are counted apart, and values that no study states are
// marked.
func TestOwnClaimsAreCountedApart(t *testing.T) {
	claims := contest{
		published: true,
		claims: `{"row":"K4","says":"theirs","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":2},
			{"row":"K9","says":"inferred","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":2,"basis":"inferred"},
			{"row":"C1","says":"bounds","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","at-least":2,"basis":"own bounds"},
			{"row":"Q5","says":"ours","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":2,"basis":"own"},
			{"says":"ours, too","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":2}`,
		run: synthetic{seed: 7, noise: 0.01, repeats: 3, truths: []truth{{part: "p", variant: "a", clients: 1, mean: 300 * us}, {part: "p", variant: "b", clients: 1, mean: 100 * us}}},
	}.judge(t)
	if got, want := strings.Join(compare.CountOutcomes(claims), " "), "3 published claims: 1 compatible, 2 larger. 2 own claims: 2 larger."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i, want := range []string{"2×", "2× (inferred)", "≥ 2 (own bounds)", "2× (own)", "2×"} {
		if got := claims[i].ClaimedText(); got != want {
			t.Errorf("%s is claimed to be %q, want %q", claims[i].Says, got, want)
		}
	}
}

// A figure that a check refused was measured.
func TestRefusedIsNotUnmeasured(t *testing.T) {
	claims := contest{
		claims: `{"says":"it","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":2}`,
		run:    synthetic{seed: 7, repeats: 3, truths: []truth{{part: "p", variant: "a", clients: 1, mean: 300 * us}, {part: "p", variant: "b", clients: 1, mean: 100 * us}}},
		change: func(r *record.Record) {
			r.Checks = append(r.Checks, record.Check{Name: "gaps", Level: record.Invalid, Detail: "other programs took 40 % of the CPU"})
		},
	}.judge(t)
	if c := claims[0]; c.Outcome != compare.Refused || c.Reason != "mean of a in p: refused, because other programs took 40 % of the CPU" {
		t.Errorf("%s: %s", c.Outcome, c.Reason)
	}
}

// Other programs change neither how often a page is missing nor the bytes of a call.
func TestOtherProgramsSpoilNoCounts(t *testing.T) {
	claims := contest{
		claims: `{"says":"30 times more faults","part":"p","find":"ratio(\"server-faults\", \"a\", \"b\")","ratio":30},
			{"says":"equal bytes","part":"p","find":"ratio(\"request-bytes\", \"a\", \"b\")","at-least":0.99,"at-most":1.01},
			{"says":"slower","part":"p","find":"ratio(\"mean\", \"a\", \"b\")","ratio":2}`,
		run: synthetic{seed: 7, noise: 0.3, repeats: 3, truths: []truth{{part: "p", variant: "a", clients: 1, mean: 300 * us}, {part: "p", variant: "b", clients: 1, mean: 100 * us}}},
		change: func(r *record.Record) {
			r.Checks = append(r.Checks, record.Check{Name: "gaps", Level: record.Invalid, Spoils: check.SpoilsOf("gaps"), Detail: "other programs took 40 % of the CPU"})
			faults := int64(1000 + 20*r.Repeat)
			if r.Cell.Variant == "a" {
				faults = 32 * (faults + 30)
			}
			r.Server.MinorFaults, r.Server.MajorFaults = &faults, new(int64)
			r.Wire = &record.Wire{Request: record.WireBytes{MessageBytes: 64, ProtocolBytes: 20}}
		},
	}.judge(t)
	for i, want := range []compare.Outcome{compare.Compatible, compare.Compatible, compare.Refused} {
		if c := claims[i]; c.Outcome != want || want == compare.Compatible && (c.Pairs != 3 || c.Ratio.Interval == nil) {
			t.Errorf("%s: %s (%s), %+v of %d repeats; want %s", c.Says, c.Outcome, c.Reason, c.Ratio, c.Pairs, want)
		}
	}
}
