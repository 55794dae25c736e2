package analysis

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
)

// A plantedLever is a variant of a test of levers with its mean time in microseconds.
type plantedLever struct {
	variant string
	mean    int
	both    []string
}

// tried returns the manifest of a scenario that tries the levers on the first variant, and its trials.
func tried(t *testing.T, noise float64, repeats int, against string, all ...plantedLever) (*record.Manifest, []*record.Record) {
	t.Helper()
	s := synthetic{seed: 7, noise: noise, repeats: repeats}
	var stacks []string
	levers := []map[string]any{}
	for i, one := range all {
		stacks = append(stacks, one.variant)
		if one.mean > 0 {
			s.truths = append(s.truths, truth{part: "levers", variant: one.variant, bytes: 64, clients: 4, mean: time.Duration(one.mean) * time.Microsecond})
		}
		if i > 0 { // the faster variant is one, too
			levers = append(levers, map[string]any{"stack": one.variant, "name": one.variant, "write": "line of " + one.variant, "both": one.both})
		}
	}
	part := map[string]any{"name": "levers", "stacks": stacks, "levers": map[string]any{
		"against": against, "tried": levers, "not-tried": []map[string]string{{"name": "smallobject=64KiB", "why": "it builds a runtime"}},
	}}
	if against == "" {
		delete(part["levers"].(map[string]any), "against")
	}
	text, err := json.Marshal(map[string]any{"parts": []any{part}})
	if err != nil {
		t.Fatal(err)
	}
	m := manifest(len(s.truths) * repeats)
	m.Scenario = text
	return m, inBlocks(s.records(t))
}

// inBlocks makes the trials of a repeat one block.
func inBlocks(records []*record.Record) []*record.Record {
	for _, r := range records {
		r.Block = r.Repeat
	}
	return records
}

func leverTest(t *testing.T, m *record.Manifest, records []*record.Record) compare.LeverTest {
	t.Helper()
	s, err := Summarize(m, JudgedTrials{Records: records}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Levers) != 1 {
		t.Fatalf("%d tests of levers, want 1", len(s.Levers))
	}
	return s.Levers[0]
}

func effectOf(t *testing.T, test compare.LeverTest, name string) compare.LeverEffect {
	t.Helper()
	for _, e := range test.Levers {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no lever %s in %+v", name, test.Levers)
	return compare.LeverEffect{}
}

func TestThePlantedLeverIsFound(t *testing.T) {
	m, records := tried(t, 0.02, 6, "grpc",
		plantedLever{variant: "grpc:gogc=10", mean: 200}, plantedLever{variant: "grpc", mean: 100},
		plantedLever{variant: "grpc:gogc=400", mean: 120}, plantedLever{variant: "grpc:conns=4,gogc=10", mean: 200}, plantedLever{variant: "grpc:gogc=10,tls=on", mean: 300})
	test := leverTest(t, m, records)
	if test.Plain != "grpc:gogc=10" || test.Against != "grpc" || test.Metric != "mean" || len(test.NotTried) != 1 || test.Levers[0].Name != "grpc" || test.Levers[1].Name != "grpc:gogc=400" || test.Levers[3].Name != "grpc:gogc=10,tls=on" {
		t.Fatalf("%+v", test)
	}
	within(t, "the gap", test.Gap.Value, 2, 0.03)
	found := effectOf(t, test, "grpc:gogc=400")
	within(t, "the ratio", found.Ratio.Value, 0.6, 0.03)
	within(t, "the share of the gap", found.Share.Value, 0.8, 0.05)
	if in := found.Share.Interval; !found.Helps() || in == nil || in.Low > 0.8 || in.High < 0.8 || in.High-in.Low > 0.2 || found.Write != "line of grpc:gogc=400" {
		t.Errorf("the planted lever: %+v, share %+v %+v", found, found.Share, in)
	}
	if all := test.Levers[0].Share; all == nil || all.Value != 1 || all.Interval == nil || all.Interval.Low < 0.999 || all.Interval.High > 1.001 {
		t.Errorf("the lever that gives the faster variant removes %+v of the difference, want all", all)
	}
	// A lever that changes nothing is not found, and one that harms is told apart.
	if same := effectOf(t, test, "grpc:conns=4,gogc=10"); same.Helps() || same.Harms() || math.Abs(same.Share.Value) > 0.1 {
		t.Errorf("a lever without an effect: %+v", same)
	}
	if worse := effectOf(t, test, "grpc:gogc=10,tls=on"); !worse.Harms() || worse.Share.Value > -0.8 {
		t.Errorf("a lever that harms: %+v", worse)
	}
}

func TestNoLeverMovesEqualVariants(t *testing.T) {
	found, tests := 0, 0
	for seed := range uint64(40) {
		m, records := tried(t, 0.05, 3+int(seed)%5, "", plantedLever{variant: "tcp", mean: 100},
			plantedLever{variant: "tcp:gogc=400", mean: 100}, plantedLever{variant: "tcp:buffers=pooled", mean: 100}, plantedLever{variant: "tcp:gogc=off", mean: 100}, plantedLever{variant: "tcp:gate=8", mean: 100})
		test := leverTest(t, m, inBlocks((synthetic{seed: seed, noise: 0.05, repeats: 3 + int(seed)%5, truths: truthsOf(records)}).records(t)))
		tests++
		for _, e := range test.Levers {
			if e.Helps() || e.Harms() {
				found++
			}
			if e.Share != nil {
				t.Errorf("a share of no difference: %+v", e)
			}
		}
	}
	if found > tests/8 { // 5 % of the tests may have one
		t.Errorf("%d false findings in %d tests without an effect", found, tests)
	}
}

// truthsOf returns the cells of records as truths of 100 µs.
func truthsOf(records []*record.Record) (all []truth) {
	seen := map[string]bool{}
	for _, r := range records {
		if !seen[r.Cell.Variant] {
			seen[r.Cell.Variant] = true
			all = append(all, truth{part: r.Cell.Part, variant: r.Cell.Variant, bytes: r.Cell.RequestBytes, clients: r.Cell.Clients, mean: 100 * time.Microsecond})
		}
	}
	return all
}

func TestTwoLeversAreComparedWithEachAlone(t *testing.T) {
	pair := func(both int) compare.LeverEffect {
		m, records := tried(t, 0.01, 6, "", plantedLever{variant: "tcp", mean: 200},
			plantedLever{variant: "tcp:buffers=pooled", mean: 100}, plantedLever{variant: "tcp:gogc=400", mean: 160},
			plantedLever{variant: "tcp:buffers=pooled,gogc=400", mean: both, both: []string{"tcp:gogc=400", "tcp:buffers=pooled"}})
		e := effectOf(t, leverTest(t, m, records), "tcp:buffers=pooled,gogc=400")
		if len(e.Both) != 2 || e.Both[0] != "tcp:buffers=pooled" || e.Excess.Interval == nil || e.Beyond.Interval == nil {
			t.Fatalf("%+v", e)
		}
		return e
	}
	// 200 × 0.5 × 0.8 = 80: the effects multiply. At 100 the second lever adds nothing.
	if adds := pair(80); adds.Excess.Interval.Low > 1 || adds.Excess.Interval.High < 1 || adds.Beyond.Interval.High > 1 {
		t.Errorf("effects that multiply: %+v %+v", adds.Excess.Interval, adds.Beyond.Interval)
	}
	if same := pair(100); same.Excess.Interval.Low < 1 || same.Beyond.Interval.High < 1 || same.Beyond.Interval.Low > 1 {
		t.Errorf("a second lever that adds nothing: %+v %+v", same.Excess.Interval, same.Beyond.Interval)
	}
}

// A delay is no lever: its effect is a slope, and the other levers are judged without it.
func TestADelayHasASlope(t *testing.T) {
	m, records := tried(t, 0.01, 6, "", plantedLever{variant: "tcp", mean: 200}, plantedLever{variant: "tcp:busy-server=100us", mean: 500}, plantedLever{variant: "tcp:gogc=400", mean: 150})
	m.Scenario = bytes.Replace(m.Scenario, []byte(`"name":"tcp:busy-server=100us"`), []byte(`"name":"tcp:busy-server=100us","delay":"100us"`), 1)
	test := leverTest(t, m, records)
	delay := effectOf(t, test, "tcp:busy-server=100us")
	if !delay.IsDelay || delay.Harms() || delay.Slope.Interval == nil || delay.Slope.Interval.Low > 3 || delay.Slope.Interval.High < 3 || test.Levers[0].Name != "tcp:gogc=400" {
		t.Errorf("%+v, slope %+v", delay, delay.Slope)
	}
	within(t, "the slope", delay.Slope.Value, 3, 0.05)
}

// A lever whose variant was not measured has no figure, and the others keep theirs.
func TestALeverWithoutATrialHasNoFigure(t *testing.T) {
	m, records := tried(t, 0.01, 4, "", plantedLever{variant: "tcp", mean: 200}, plantedLever{variant: "tcp:gogc=400", mean: 100}, plantedLever{variant: "tcp:gogc=off"})
	test := leverTest(t, m, records)
	if last := test.Levers[1]; last.Name != "tcp:gogc=off" || last.Ratio != nil || last.Helps() || last.Harms() {
		t.Errorf("%+v", last)
	}
	if !test.Levers[0].Helps() {
		t.Errorf("%+v", test.Levers[0])
	}
}

// A look repeats only the levers that are open, with the plain variant.
func TestALookRepeatsOpenLevers(t *testing.T) {
	m, records := tried(t, 0.06, 4, "", plantedLever{variant: "tcp", mean: 200}, plantedLever{variant: "tcp:gogc=400", mean: 60}, plantedLever{variant: "tcp:gogc=off", mean: 194})
	m.Until = &record.Until{Looks: []record.InterimLook{{Repeats: 4, Level: 0.02}, {Repeats: 8, Level: 0.03}}, Begun: 1}
	look, err := compare.EvaluateLook(m, records)
	if err != nil {
		t.Fatal(err)
	}
	if look.Of != 2 || look.Open != 1 || len(look.Points) != 1 || len(look.Points[0].Cells) != 2 || look.Points[0].Cells[0].Variant != "tcp" || look.Points[0].Cells[1].Variant != "tcp:gogc=off" {
		t.Errorf("%+v", look)
	}
}
