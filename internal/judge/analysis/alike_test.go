package analysis

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// imported are files of a tool, each with its mean, in one cell.
func imported(t *testing.T, cell record.Cell, means ...time.Duration) *Summary {
	t.Helper()
	cell.Part, cell.Stack, cell.Variant = "import", cell.Tool, cell.Tool
	var records []*record.Record
	for i, mean := range means {
		r := &record.Record{
			Trial: i, Repeat: i + 1, Cell: cell, WindowNS: 1e9, Foreign: &record.Foreign{Tool: cell.Tool, File: fmt.Sprint(i)},
			Measurement: record.Measurement{ClientProgram: cell.Tool, Requests: 2000, Completed: 2000, Service: latency.Distribution{
				Count: 2000, Sum: 2000 * int64(mean), Min: int64(mean) / 2, Max: 9 * int64(mean),
				Percentiles: []latency.Percentile{{Quantile: 0.5, Duration: int64(mean)}, {Quantile: 0.99, Duration: 3 * int64(mean)}, {Quantile: 0.999, Duration: 8 * int64(mean)}},
			}},
		}
		records = append(records, r)
	}
	s, err := Summarize(&record.Manifest{Trials: len(records)}, JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A percentile of several files is the median of theirs; one that they lack, or that too few
// calls lie beyond, is unknown; and nothing is concluded within the run.
func TestToldPercentilesAreTakenAsTheyAre(t *testing.T) {
	s := imported(t, record.Cell{Tool: "ghz", Place: record.Place{Workload: "a", Clients: 4}, Load: record.Load{Model: "closed"}}, 100*time.Microsecond, 300*time.Microsecond, 200*time.Microsecond)
	c := s.Cells[0]
	for _, test := range []struct {
		name      string
		got, want float64
	}{
		{"mean", c.Service.Mean.Value, 100 * math.Cbrt(6)},
		{"P50", c.Service.P50.Value, 200},
		{"P99", c.Service.P99.Value, 600},
		{"P90, not measured", c.Service.P90.Value, math.NaN()},
		{"P99.9 of 2000", c.Service.P999.Value, math.NaN()},
		{"P99/P50", c.P99OverP50.Value, 3},
		{"warm-up", c.WarmUp.Value, math.NaN()},
		{"in flight", c.InFlight.Value, math.NaN()},
	} {
		if !(math.Abs(test.got-test.want) < 1e-6 || math.IsNaN(test.got) && math.IsNaN(test.want)) {
			t.Errorf("%s: %v, want %v", test.name, test.got, test.want)
		}
	}
	if c.Service.P99.Interval == nil || c.ClientCPU != nil || c.ServerCPU != nil || len(s.WarmUps) > 0 || len(s.Comparisons) > 0 {
		t.Errorf("%+v", c)
	}
	if c.Response != nil {
		t.Error("a closed loop's response times are its service times")
	}
}

// Where a rate was to be held, how late calls went out is in no figure.
func TestResponseTimesOfAPacedLoopAreUnknown(t *testing.T) {
	for _, model := range []string{record.Paced, record.UnknownLoad, "open"} {
		s := imported(t, record.Cell{Tool: "fortio", Place: record.Place{Workload: "a"}, Load: record.Load{Model: model}}, time.Millisecond)
		c := s.Cells[0]
		if c.Response == nil || !math.IsNaN(c.Response.Mean.Value) || !math.IsNaN(c.Response.Max.Value) || !math.IsNaN(c.P99OverP50.Value) {
			t.Errorf("%s: response times %+v, P99/P50 %v", model, c.Response, c.P99OverP50.Value)
		}
		if c.Service.Mean.Value != 1000 || c.Service.Mean.Interval != nil {
			t.Errorf("%s: service times %+v", model, c.Service)
		}
	}
}

// A tool's cell is held against wirelab's own where one of these may be meant, and otherwise
// against none.
func TestDiffTakesACellOfAToolForOneOfWirelabsOwn(t *testing.T) {
	own, _ := runsThatDiffer(t, 1, 3, 1)
	files := imported(t, record.Cell{Tool: "ghz", Place: record.Place{Workload: "a", Clients: 50}, Load: record.Load{Model: "closed"}}, 200*time.Microsecond, 202*time.Microsecond, 198*time.Microsecond)
	if _, err := NewDiff(own, files); err == nil {
		t.Fatal("three cells have 50 clients: which is meant?")
	}
	if err := own.KeepOnly("grpc/echo"); err != nil {
		t.Fatal(err)
	}
	d, err := NewDiff(own, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range d.Differences {
		if one.Cell != "matrix/grpc/echo/64B/c=50 → import/ghz/a/c=50" {
			t.Errorf("compared %s", one.Cell)
		}
		if one.Metric == matrix.Mean && (one.Verdict != compare.Slower || math.Abs(one.Ratio.Value-2) > 0.3) {
			t.Errorf("twice as long is %+v", one)
		}
		if one.Metric == matrix.CPU {
			t.Error("CPU time was compared, which no file has")
		}
	}
	if len(d.Differences) == 0 || len(d.Doubts) == 0 {
		t.Errorf("%+v", d)
	}
	if err := own.KeepOnly("nothing"); err == nil {
		t.Error("no cell is called so")
	}
}

// Runs whose cells differ only in their load are told apart by the flags.
func TestRunsWithOtherLoads(t *testing.T) {
	at := func(load record.Load) *Summary {
		return &Summary{points: []*matrix.Point{{Cell: record.Cell{Part: "load", Stack: "tcp", Variant: "tcp", Load: load}}}}
	}
	_, err := NewDiff(at(record.Load{Model: "closed", TotalRequests: 2000}), at(record.Load{Model: "closed", TotalRequests: 3000}))
	if err == nil || !strings.Contains(err.Error(), "differs in -n: 2000 and 3000; ") {
		t.Errorf("the error is %v", err)
	}
}
