package compare

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// stepPoints are trials whose times are known: by variant and size, with some noise.
func stepPoints(t *testing.T, noise float64, times map[string]map[int]float64) []*matrix.Point {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	var records []*record.Record
	for repeat := 1; repeat <= 6; repeat++ {
		for _, variant := range []string{"grpc", "grpc:tiers", "grpc:limit"} {
			for size, us := range times[variant] {
				histogram := latency.NewRecorder()
				ns := int64(us * 1e3 * (1 + noise*random.NormFloat64()))
				for range 100 {
					histogram.Record(ns)
				}
				distribution, err := latency.NewHistogram(histogram).Distribution()
				if err != nil {
					t.Fatal(err)
				}
				r := &record.Record{Trial: len(records), Repeat: repeat, Cell: record.Cell{Part: "p", Variant: variant, Place: record.Place{Payload: record.Payload{RequestBytes: size, ResponseBytes: size}, Clients: 1}}}
				r.Service, r.Requests, r.Completed = distribution, 100, 100
				r.Client.MinorFaults, r.Server.MinorFaults = new(int64(size/1000)), new(int64(0))
				records = append(records, r)
				histogram.Close()
			}
		}
	}
	points, err := study.GroupTrials(&study.Study{Place: map[string]int{"grpc": 0, "grpc:tiers": 1, "grpc:limit": 2}}, records)
	if err != nil {
		t.Fatal(err)
	}
	return points
}

// TestAStepThatMoves: the first variant's step stays with one factor, and moves with another.
func TestAStepThatMoves(t *testing.T) {
	points := stepPoints(t, 0.03, map[string]map[int]float64{
		"grpc":       {32: 100, 33: 200, 64: 210, 66: 212},
		"grpc:limit": {32: 90, 33: 190, 64: 210, 66: 209},
		"grpc:tiers": {32: 100, 33: 103, 64: 120, 66: 240},
	})
	s := &study.Study{Steps: []study.StepQuestion{{Part: "p", First: "grpc", Sizes: []scenario.Step{{From: 32, To: 33}, {From: 64, To: 66}}}}}
	got := map[string]StepKind{}
	for _, step := range FindSteps(s, points) {
		got[fmt.Sprintf("%s %d", step.Variant, step.From)] = step.Outcome
		if step.Time.Interval == nil || step.Faults == nil {
			t.Errorf("%+v lacks an interval, or faults", step)
		}
	}
	for name, want := range map[string]StepKind{
		"grpc 32": HasStep, "grpc:limit 32": StepStays, "grpc:tiers 32": StepGone,
		"grpc 64": NoStep, "grpc:limit 64": NoStep, "grpc:tiers 64": StepAppears,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
}

// TestNoiseIsNoStep checks that noise between trials proves neither a step nor its absence.
func TestNoiseIsNoStep(t *testing.T) {
	points := stepPoints(t, 0.5, map[string]map[int]float64{"grpc": {32: 100, 33: 112}, "grpc:tiers": {32: 100, 33: 112}})
	for _, step := range FindSteps(&study.Study{Steps: []study.StepQuestion{{Part: "p", First: "grpc", Sizes: []scenario.Step{{From: 32, To: 33}}}}}, points) {
		if step.Outcome != StepUndecided {
			t.Errorf("%+v", step)
		}
	}
}
