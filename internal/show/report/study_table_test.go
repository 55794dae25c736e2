package report

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fixtureUsers is a study with a table of its own: closed loops, a burst in which one
// stack loses some, and a cell that is not valid.
func fixtureUsers(t *testing.T) *Run {
	t.Helper()
	run := fixtureLoads(t)
	s := run.Summary
	s.Cells = nil
	s.Report.Table.File = "benchmark"
	s.Declared = scenario.Declarations{
		Workloads: []scenario.Declaration{{Name: "users", Options: []scenario.Option{{Key: "op", Role: scenario.OperationRole}}}},
		Protocols: map[string]string{"grpc": "HTTP/2", "rest-json": "HTTP/1.1"},
	}
	for _, load := range []record.Load{{Model: "closed", DurationNS: 1e9}, {Model: "burst", Burst: 1000}} {
		for _, variant := range []string{"grpc", "rest-json", "rest-json:http=2"} {
			c := fixtureLoaded("grpc", load)
			c.Part, c.Workload, c.Variant = "get-users-"+load.Model, "users:limit=10,op=get-users", variant
			if variant != "grpc" {
				c.Stack = "rest-json"
			}
			c.Bound = matrix.ByWaiting
			cores, rss, total := fixtureFigure(0.42), fixtureFigure(31.5e6), fixtureFigure(216)
			c.Server.Cores, c.Server.RSS = &cores, &rss
			c.Wire = &matrix.Wire{Request: matrix.WireBytes{Total: total}, Response: matrix.WireBytes{Total: fixtureFigure(1845)}}
			s.Cells = append(s.Cells, c)
		}
	}
	s.Cells[1].Bound = matrix.ByServerCPU
	s.Cells[2].Connections.Negotiated = matrix.Negotiated{Recorded: true, Protocol: "h2"} // the others are of older records
	s.Cells[4].Survival = fixtureSurvival(3000, 2700)
	s.Cells[5].Valid = 0
	for _, metric := range []string{matrix.Mean, matrix.Throughput} {
		c := s.Cells[1]
		s.Comparisons = append(s.Comparisons, compare.Comparison{
			Part: c.Part, A: "grpc", B: "rest-json", Place: record.Place{Workload: c.Workload, Clients: c.Clients}, Load: c.Load, Metric: metric, Pairs: 3,
			Ratio: matrix.Figure{Value: 0.5, Interval: &matrix.Interval{Low: 0.4, High: 0.625, Confidence: 0.95}},
		})
	}
	return run
}

func TestStudyTable(t *testing.T) {
	var out bytes.Buffer
	if err := WriteStudyTable(&out, fixtureUsers(t)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 7 {
		t.Fatalf("%d rows, want a head and 6: %v", len(rows), err)
	}
	const grpc, rest, rest2, burst, lossy, invalid = 1, 2, 3, 4, 5, 6
	for _, c := range []struct {
		row          int
		column, want string
	}{
		{grpc, "scenario", "get-users-closed"},
		{grpc, "operation", "get-users"},
		{grpc, "stack", "grpc"},
		{grpc, "load", "closed"},
		{grpc, "users", "100"},
		{grpc, "protocol", "HTTP/2"},
		{rest, "protocol", "HTTP/1.1"},
		{rest2, "protocol", "HTTP/2"},
		{grpc, "throughput_rps", "75268.8"},
		{grpc, "mean_ms", "1.32857"},
		{grpc, "p95_ms", "2.50506"},
		{grpc, "request_wire_bytes", "216"},
		{grpc, "response_wire_bytes", "1845"},
		{grpc, "client_cpu_us", "66.4286"},
		{grpc, "server_cpu_us", "88.5714"},
		{grpc, "server_cpu_percent_of_core", "42"},
		{grpc, "server_rss_mb", "31.5"},
		{grpc, "server_peak_mb", ""},
		{grpc, "limit", "waiting"},
		{rest, "limit", "cpu"},
		{grpc, "throughput_ratio", ""},
		{grpc, "mean_ratio", ""},
		{rest, "throughput_ratio", "2"},
		{rest, "throughput_ratio_low", "1.6"},
		{rest, "throughput_ratio_high", "2.5"},
		{rest, "mean_ratio", "2"},
		{rest, "mean_ratio_low", "1.6"},
		{rest, "mean_ratio_high", "2.5"},
		{burst, "load", "burst of 1,000"},
		{burst, "users", "1000"},
		{burst, "failed", "0"},
		{burst, "error_rate", "0"},
		{lossy, "requests", "3000"},
		{lossy, "succeeded", "2700"},
		{lossy, "failed", "300"},
		{lossy, "error_rate", "0.1"},
		{invalid, "valid", "0/3"},
		{invalid, "throughput_rps", ""},
		{invalid, "mean_ms", ""},
		{invalid, "succeeded", "3000"},
	} {
		at := slices.Index(rows[0], c.column)
		if at < 0 {
			t.Fatalf("no column %s in %v", c.column, rows[0])
		}
		if got := rows[c.row][at]; got != c.want {
			t.Errorf("%s of %s in %s: %q, want %q", c.column, rows[c.row][2], rows[c.row][0], got, c.want)
		}
	}
}

func TestOnlyAStudyThatAsksForATableHasOne(t *testing.T) {
	run := fixtureUsers(t)
	if name, has := StudyTableFile(run.Summary); !has || name != "benchmark_20261121_0900.csv" {
		t.Errorf("%s, %v", name, has)
	}
	run.Summary.Report.Table.File = ""
	if _, has := StudyTableFile(run.Summary); has {
		t.Error("one that does not has one too")
	}
}

func TestAStudyChoosesItsColumns(t *testing.T) {
	run := fixtureUsers(t)
	run.Summary.Report.Table.Columns = []string{"mean_ms", "scenario"}
	var out strings.Builder
	if err := WriteStudyTable(&out, run); err != nil {
		t.Fatal(err)
	}
	if want := "mean_ms,scenario\n1.32857,get-users-closed\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
	if err := CheckStudyColumn("mean_ms"); err != nil {
		t.Error(err)
	}
	if err := CheckStudyColumn("maen_ms"); err == nil || !strings.Contains(err.Error(), "did you mean mean_ms?") {
		t.Error(err)
	}
}
