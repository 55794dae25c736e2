package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// trialOf makes a trial of a closed loop with one client and this mean in microseconds.
func trialOf(t *testing.T, variant string, repeat int, us float64) *record.Record {
	t.Helper()
	recorder := latency.NewRecorder()
	defer recorder.Close()
	const requests = 1000
	sum := int64(0)
	for i := range requests {
		ns := int64(us * 1e3)
		if i < requests/50 {
			ns *= 3
		}
		recorder.Record(ns)
		sum += ns
	}
	service, err := latency.NewHistogram(recorder).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	cpu := sum / 2
	return &record.Record{
		Repeat: repeat, WindowNS: sum,
		Cell:        record.Cell{Part: "p", Variant: variant, Place: record.Place{Clients: 1}, Load: record.Load{Model: "closed"}},
		Measurement: record.Measurement{Requests: requests, Completed: requests, Service: service},
		Client:      record.Process{UserNS: &cpu, SystemNS: new(int64)}, Server: record.Process{UserNS: &cpu, SystemNS: new(int64)},
	}
}

// compareRecords returns the comparisons and the cells of the records.
func compareRecords(t *testing.T, records []*record.Record) ([]Comparison, []matrix.Cell) {
	t.Helper()
	for i, r := range records {
		r.Trial = i
	}
	points, err := study.GroupTrials(&study.Study{}, records)
	if err != nil {
		t.Fatal(err)
	}
	cells, _ := matrix.Cells(points, records, 1)
	all, _ := CompareAll(points)
	return all, cells
}

// Five trials each, and every tcp trial is faster than every grpc trial. Only three repeats have both.
func TestTrialsWithoutAPartnerCount(t *testing.T) {
	var records []*record.Record
	for i, us := range []float64{450, 520, 530, 620, 1020} {
		records = append(records, trialOf(t, "tcp", []int{1, 2, 5, 3, 4}[i], us))
	}
	for i, us := range []float64{1260, 1380, 1820, 2220, 3150} {
		records = append(records, trialOf(t, "grpc", []int{4, 8, 3, 9, 1}[i], us))
	}
	all, _ := compareRecords(t, records)
	for _, c := range all {
		if c.Metric != matrix.Mean {
			continue
		}
		if c.Pairs != 3 || c.Verdict != Faster || c.P > 0.05 {
			t.Errorf("%d pairs, p = %.3g: tcp is %s", c.Pairs, c.P, c.Verdict)
		}
		within(t, "tcp over grpc", c.Ratio.Value, 1/3.09, 0.02)
		t.Logf("%.3f (%.3f to %.3f), p = %.4f", 1/c.Ratio.Value, 1/c.Ratio.Interval.High, 1/c.Ratio.Interval.Low, c.P)
	}
}

// A wild trial turned the paired ratio against the medians of the table.
func TestRatioHasTheSignOfTheTable(t *testing.T) {
	var records []*record.Record
	for i, us := range []float64{220, 227, 900, 231, 225} {
		records = append(records, trialOf(t, "pool-tiers", i+1, us))
	}
	for i, us := range []float64{245, 252, 260, 249, 255} {
		records = append(records, trialOf(t, "buffers", i+1, us))
	}
	all, cells := compareRecords(t, records)
	for _, c := range all {
		if c.Metric == matrix.Mean {
			within(t, "the ratio", c.Ratio.Value, cells[0].Service.Mean.Value/cells[1].Service.Mean.Value, 1e-9)
			if c.Verdict != Undecided {
				t.Errorf("one wild trial makes pool-tiers %s", c.Verdict)
			}
		}
	}
}

// figureOf returns the printed figure of a metric.
func figureOf(c *matrix.Cell, metric string) float64 {
	switch metric {
	case matrix.Mean:
		return c.ResponseTimes().Mean.Value
	case matrix.P99:
		return c.ResponseTimes().P99.Value
	case matrix.Throughput:
		return c.Throughput.Value
	}
	return c.BothCPU().Value
}

// No ratio contradicts the figures of a table, whatever was lost, spoiled or stalled.
func TestRatiosAreQuotientsOfTheFigures(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	runs, compared := 60, 0
	if testing.Short() {
		runs = 10
	}
	for range runs {
		variants := []string{"a", "b", "c", "d"}[:2+random.IntN(3)]
		repeats, inBlocks, lost := 1+random.IntN(9), random.IntN(2) == 0, random.Float64()/2
		var records []*record.Record
		for repeat := 1; repeat <= repeats; repeat++ {
			machine := math.Exp(0.3 * random.NormFloat64())
			for i, variant := range variants {
				us := 200 * machine * math.Exp(0.1*float64(i)+0.2*random.NormFloat64())
				if random.IntN(8) == 0 {
					us *= 5
				}
				r := trialOf(t, variant, repeat, us)
				r.Client.UserNS = new(int64(float64(*r.Client.UserNS) * math.Exp(0.2*random.NormFloat64())))
				if inBlocks {
					r.Block = repeat
					for range 6 {
						slice := int64(float64(r.WindowNS) / 6 * math.Exp(0.2*random.NormFloat64()))
						r.Slices = append(r.Slices, record.Slice{TookNS: slice, Requests: 166, Completed: 166, SumNS: slice})
					}
				}
				switch chance := random.Float64(); {
				case chance < lost/2:
					continue
				case chance < lost:
					r.Checks = []record.Check{{Name: "gaps", Level: record.Invalid}}
				}
				records = append(records, r)
			}
		}
		all, cells := compareRecords(t, records)
		for _, c := range all {
			var of [2]float64
			for i, variant := range []string{c.A, c.B} {
				at := slices.IndexFunc(cells, func(cell matrix.Cell) bool { return cell.Variant == variant })
				of[i] = figureOf(&cells[at], c.Metric)
			}
			compared++
			within(t, c.Metric, c.Ratio.Value, of[0]/of[1], 1e-9)
			i := c.Ratio.Interval
			switch {
			case i != nil && !(i.Low <= c.Ratio.Value && c.Ratio.Value <= i.High):
				t.Errorf("%s: %v lies outside of %+v", c.Metric, c.Ratio.Value, i)
			case c.IsDifferent() && (i == nil || i.Low <= 1 && i.High >= 1):
				t.Errorf("%s: %s, but the interval is %+v", c.Metric, c.Verdict, i)
			case c.IsDifferent() && (c.Ratio.Value < 1) != (c.Verdict == Less || (c.Verdict == Faster) != (c.Metric == matrix.Throughput) && c.Verdict != More):
				t.Errorf("%s: %s at %v", c.Metric, c.Verdict, c.Ratio.Value)
			}
		}
	}
	if compared < runs {
		t.Errorf("only %d comparisons", compared)
	}
}

// The ratio of two P99 is the quotient of the table's, which a stall in one trial moves. Verdicts and
// intervals stay right.
func TestStallsMakeNoVerdictOnP99(t *testing.T) {
	if testing.Short() {
		t.Skip("short: makes thousands of trials")
	}
	for _, c := range []struct {
		name   string
		stalls float64 // share of trials with a stall
		noise  float64
	}{{"no stalls", 0, 0.05}, {"stalls in one trial of ten", 0.1, 0.05}, {"stalls in three of ten", 0.3, 0.05}} {
		random := rand.New(rand.NewPCG(12, 2))
		const runs, kinds = 400, 50
		var usual, stalled []*record.Record // the quantiles of the noise
		for i := range kinds {
			us := 200 * math.Exp(c.noise*distuv.UnitNormal.Quantile((float64(i)+0.5)/kinds))
			usual, stalled = append(usual, trialOf(t, "", 0, us)), append(stalled, trialOf(t, "", 0, 4*us))
		}
		wrong, covered := 0, 0
		for range runs {
			var records []*record.Record
			for repeat := range 5 {
				for _, variant := range []string{"a", "b"} {
					from := usual
					if random.Float64() < c.stalls {
						from = stalled
					}
					r := *from[random.IntN(kinds)]
					r.Trial, r.Repeat, r.Cell.Variant = len(records), repeat+1, variant
					records = append(records, &r)
				}
			}
			points, err := study.GroupTrials(&study.Study{}, records)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := CompareAll(points)
			for _, compared := range all {
				if compared.Metric != matrix.P99 {
					continue
				}
				if compared.IsDifferent() {
					wrong++
				}
				if i := compared.Ratio.Interval; i.Low <= 1 && 1 <= i.High {
					covered++
				}
			}
		}
		t.Logf("| %s | %.0f %% | %.0f %% |", c.name, 100*float64(wrong)/runs, 100*float64(covered)/runs)
		if wrong > runs*7/100 || covered < runs*93/100 {
			t.Errorf("%s: a difference in %d of %d runs, the interval holds the truth in %d", c.name, wrong, runs, covered)
		}
	}
}

// A point that ended at an early look is judged by the level of that look, beside points with others.
func TestEachComparisonHasItsOwnLevel(t *testing.T) {
	ratio := func(level matrix.Level) matrix.Ratio {
		r := pairedRatio([]float64{1.1, 1.11, 1.12, 1.13, 1.16}, []float64{1, 1.03, 1.01, 1.04, 1})
		r.Level = level
		return r
	}
	judge := func(levels ...matrix.Level) (all []stats.Comparison) {
		var f Family
		for _, level := range levels {
			f.Add(ratio(level), func(c stats.Comparison) { all = append(all, c) })
		}
		f.Judge()
		return all
	}
	alone, strict := judge(0)[0], judge(0.005)[0]
	within(t, "P at a tenth of the level", strict.P, 10*alone.P, 1e-6)
	both := judge(0, 0.005)
	within(t, "P beside another", both[0].P, 2*alone.P, 1e-6)
	within(t, "the other's P", both[1].P, 10*alone.P, 1e-6)
	if both[0].Ratio != alone.Ratio || both[1].Ratio != strict.Ratio || strict.Ratio.High < alone.Ratio.High {
		t.Errorf("intervals %+v and %+v, want %+v and %+v", both[0].Ratio, both[1].Ratio, alone.Ratio, strict.Ratio)
	}
}
