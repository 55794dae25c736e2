package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// study is a simulated run of three variants on a machine that drifts and has a neighbour.
// Its trials go through the queue, and then through the analysis.
type study struct {
	neighbour neighbour
	repeats   int
	// drift is by how much longer calls take at the end of a quiet run than at its
	// beginning; wander is the deviation of a drift without aim.
	drift, wander float64
	// longer is the factor by which the trials of the third variant take longer, and slower
	// the factor for its calls. The longer a trial, the more often it is spoiled.
	longer, slower float64
	// bursts is the share of trials that meet a burst. A burst longer than half the
	// trial's latency spoils it. Otherwise a part of the burst is added to the latency.
	bursts float64
}

// noiseOfTrials is the deviation between trials of a cell, in logarithms.
const noiseOfTrials = 0.05

var variants = []string{"one", "two", "three"}

func (st study) plan(seed uint64) []scenario.PlannedCell {
	var cells []scenario.Cell
	for size := range 5 {
		for _, name := range variants {
			cells = append(cells, scenario.Cell{
				Part: "a", Variant: scenario.Variant{Stack: name}, Workload: "echo", Clients: 1,
				Size: scenario.Payload{Request: scenario.Size(64 << size), Response: scenario.Size(64 << size)},
				Load: scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)},
			})
		}
	}
	return scenario.Order(seed, cells, nil, st.repeats)
}

// times is v for the third variant, and 1 for the others or where there is no v.
func times(v float64, p scenario.PlannedCell) float64 {
	if v > 0 && p.Cell.Variant.Stack == variants[2] {
		return v
	}
	return 1
}

// run simulates the study, and returns its analysis and how many trials were measured
// again, as a share.
func (st study) run(t *testing.T, seed uint64) (s *analysis.Summary, again float64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 3))
	plan := st.plan(seed)
	sim := quick(random, len(plan), st.neighbour)
	for i, p := range plan {
		sim.took[i] = time.Duration(times(st.longer, p) * float64(sim.took[i]))
	}
	quiet := sim.quietly().Seconds()
	walk := []float64{0} // a step a second
	for range int(4*quiet) + 100 {
		walk = append(walk, walk[len(walk)-1]+random.NormFloat64()*st.wander/math.Sqrt(quiet))
	}
	latencies := make([]float64, len(plan)) // of the last measurement of each trial
	others := sim.spoils
	sim.spoils = func(m measurement) bool {
		at := m.from.Seconds()
		mean := times(st.slower, plan[m.trial]) * (1 + st.drift*at/quiet) * math.Exp(walk[int(at)]+noiseOfTrials*random.NormFloat64())
		burst := 0.0
		if random.Float64() < st.bursts {
			burst = math.Exp(random.NormFloat64() - 1)
		}
		mean += burst * random.Float64() / 2
		latencies[m.trial] = mean
		return others(m) || burst > mean/2
	}
	out := sim.run()
	var records []*record.Record
	for i, p := range plan {
		if slices.Contains(out.refused, i) {
			continue
		}
		r := &record.Record{Trial: i, Repeat: p.Repeat, Cell: recordedCell(p.Cell), WindowNS: 1e9}
		r.Service = latency.Distribution{Count: 1000, Sum: int64(1e8 * latencies[i]), Min: 1, Max: 1e9}
		records = append(records, r)
	}
	s, err := analysis.Summarize(&record.Manifest{Trials: len(plan)}, analysis.JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return s, float64(out.repeats) / float64(len(plan))
}

// A trial that is measured again runs later than those that it is compared with. Neither
// that nor what selects it may make a difference where there is none, or move one.
func TestMeasuringAgainDoesNotBias(t *testing.T) {
	if testing.Short() {
		t.Skip("short: hundreds of simulated runs, for a share of a few in a hundred")
	}
	const runs = 100
	twoInTen := neighbour{burns: 2 * time.Second, period: 10 * time.Second}
	twentyInHundred := neighbour{burns: 20 * time.Second, period: 100 * time.Second}
	for _, c := range []struct {
		name string
		study
	}{
		{"quiet, drift 30 %", study{repeats: 5, drift: 0.3}},
		{"2 s in 10", study{neighbour: twoInTen, repeats: 5}},
		{"2 s in 10, drift 30 %", study{neighbour: twoInTen, repeats: 5, drift: 0.3}},
		{"2 s in 10, drift 30 %, 3 repeats", study{neighbour: twoInTen, repeats: 3, drift: 0.3}},
		{"2 s in 10, wandering 20 %", study{neighbour: twoInTen, repeats: 5, wander: 0.2}},
		{"2 s in 10, drift 30 %, one with longer trials", study{neighbour: twoInTen, repeats: 5, drift: 0.3, longer: 4}},
		{"20 s in 100, drift 30 %, one with longer trials", study{neighbour: twentyInHundred, repeats: 5, drift: 0.3, longer: 4}},
		{"bursts against the own latency", study{bursts: 0.3, repeats: 5}},
		{"bursts against the own latency, one twice as slow", study{bursts: 0.3, repeats: 5, slower: 2}},
	} {
		differ, again, bias, pairs := 0, 0.0, 0.0, 0
		for seed := range uint64(runs) {
			s, repeated := c.run(t, seed)
			again += repeated / runs
			found := false
			for _, compared := range s.Comparisons {
				if compared.Metric != matrix.Mean {
					continue
				}
				differs := c.slower > 0 && (compared.A == variants[2] || compared.B == variants[2])
				found = found || !differs && (compared.Verdict == compare.Faster || compared.Verdict == compare.Slower)
				switch {
				case compared.A == variants[1] && compared.B == variants[2]:
					bias -= math.Log(compared.Ratio.Value)
					pairs++
				case compared.A == variants[2] && compared.B == variants[1]:
					bias += math.Log(compared.Ratio.Value)
					pairs++
				}
			}
			if found {
				differ++
			}
		}
		bias = math.Exp(bias/float64(pairs))/max(1, c.slower) - 1
		t.Logf("%s: a difference in %.1f %% of runs without one, the third variant %+.2f %% slower, %.0f %% of the trials measured again", c.name, 100*float64(differ)/runs, 100*bias, 100*again)
		if differ > runs*8/100 {
			t.Errorf("%s: a difference in %d of %d runs without one", c.name, differ, runs)
		}
		if math.Abs(bias) > 0.01 {
			t.Errorf("%s: the third variant is %+.2f %% slower than it is", c.name, 100*bias)
		}
	}
}
