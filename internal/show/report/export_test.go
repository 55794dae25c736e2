package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/perf/benchfmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/show/report/export"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

func TestEveryFormatIsFoundAndWrites(t *testing.T) {
	run := *fixtureRun(t)
	withSeconds := *run.Records[0]
	withSeconds.Seconds = []record.Second{{TookNS: 1e9}}
	run.Records = append(slices.Clone(run.Records), &withSeconds)
	for _, format := range Formats() {
		found, err := FindFormat(format.Name)
		if err != nil || found.About != format.About {
			t.Errorf("%s: found %+v, %v", format.Name, found, err)
		}
		var out bytes.Buffer
		if err := format.Write(&out, &run); err != nil || out.Len() == 0 {
			t.Errorf("%s: wrote %d bytes, %v", format.Name, out.Len(), err)
		}
	}
	if _, err := FindFormat("xml"); err == nil || !strings.Contains(err.Error(), "csv, json, benchstat, markdown, scenarios, allocations, series, hlog") {
		t.Errorf("unknown format: %v", err)
	}
}

func TestCSV(t *testing.T) {
	var out bytes.Buffer
	if err := WriteCSV(&out, fixtureRun(t)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+116 {
		t.Fatalf("%d rows, want a head and 116 cells", len(rows))
	}
	get := func(want map[string]string, column string) string {
		for _, row := range rows[1:] {
			matches := true
			for i, title := range rows[0] {
				if text, asked := want[title]; asked && row[i] != text {
					matches = false
				}
			}
			if !matches {
				continue
			}
			for i, title := range rows[0] {
				if title == column {
					return row[i]
				}
			}
		}
		t.Fatalf("no row %v with column %s", want, column)
		return ""
	}
	plain := map[string]string{"part": "matrix", "variant": "tcp", "request_bytes": "64", "clients": "1"}
	limited := map[string]string{"variant": "tcp:inflight=50"}
	invalid := map[string]string{"variant": "rest", "request_bytes": "65536", "clients": "500"}
	for _, c := range []struct {
		row          map[string]string
		column, want string
	}{
		{plain, "service_p50_us", get(plain, "response_p50_us")},
		{plain, "wait_p50_us", ""},
		{plain, "valid_trials", "3"},
		{limited, "service_p50_us", "2900"},
		{limited, "response_p50_us", "44000"},
		{limited, "response_p50_us_low", "41360"},
		{limited, "in_flight_limit", "50"},
		{limited, "response_max_us_low", ""},
		{invalid, "valid_trials", "0"},
		{invalid, "throughput_rps", ""},
		{invalid, "p99_over_p50", ""},
	} {
		if got := get(c.row, c.column); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.row, c.column, got, c.want)
		}
	}
}

func TestCSVOfLifecycles(t *testing.T) {
	run := fixtureLifecycle(t)
	var out bytes.Buffer
	if err := WriteCSV(&out, run); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	get := func(variant, clients, column string) string {
		at := func(title string) int { return slices.Index(rows[0], title) }
		for _, row := range rows[1:] {
			if row[at("variant")] == variant && row[at("clients")] == clients {
				return row[at(column)]
			}
		}
		t.Fatalf("no row of %s with %s clients", variant, clients)
		return ""
	}
	for _, c := range []struct{ variant, clients, column, want string }{
		{"h3:conn=resumed", "500", "connection", "resumed"},
		{"h3:conn=resumed", "500", "handshakes_full", "2100"},
		{"h3:conn=resumed", "500", "connections_achieved_share", "0.86"},
		{"h3:conn=0rtt", "10", "handshakes_early", "15000"},
		{"h3:conn=0rtt", "10", "sent_packets_per_call", "3.1"},
		{"h3:conn=0rtt", "10", "bound", "server-cpu"},
		{"h1:conn=new,tls=on", "10", "handshake_p50_us", "775"},
		{"h1:conn=new,tls=on", "10", "server_cpu_share", "0.58"},
		{"h1:conn=new,tls=on", "10", "sent_packets_per_call", ""},
		{"h1:conn=new,tls=on", "10", "wire_request_bytes", "472"},
		{"tcp:client=naive,conn=new", "500", "survival_share", "0.41"},
		{"tcp:client=naive,conn=new", "500", "handshake_p50_us", ""},
	} {
		if got := get(c.variant, c.clients, c.column); got != c.want {
			t.Errorf("%s with %s clients, %s: %q, want %q", c.variant, c.clients, c.column, got, c.want)
		}
	}
}

func TestCSVOfLoads(t *testing.T) {
	var out bytes.Buffer
	if err := WriteCSV(&out, fixtureLoads(t)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ part, variant, column, want string }{
		{"search", "grpc", "kept_rps", "4000"},
		{"search", "grpc", "kept_rps_high", "4320"},
		{"search", "grpc", "missed_rps", "4040"},
		{"search", "grpc", "knee_rps_high", "4080"},
		{"search", "rest-json", "knee_rps", ""},
		{"search", "grpc", "drain_us", ""},
		{"burst", "grpc", "drain_us", "250000"},
		{"burst", "grpc", "kept_rps", ""},
	} {
		at := func(title string) int { return slices.Index(rows[0], title) }
		i := slices.IndexFunc(rows, func(row []string) bool { return row[at("part")] == c.part && row[at("variant")] == c.variant })
		if got := rows[i][at(c.column)]; got != c.want {
			t.Errorf("%s of %s, %s: %q, want %q", c.part, c.variant, c.column, got, c.want)
		}
	}
}

// A percentile of too few requests is shown nowhere: 3,000 requests have a P99 and no P99.9.
func TestTooFewRequestsHaveNoPercentile(t *testing.T) {
	run := fixtureRun(t)
	var shown, asCSV bytes.Buffer
	if err := errors.Join(table.WriteTable(&shown, run.Summary, table.Table{Columns: []string{"P90", "P99", "P99.9", "P99.99"}}), WriteCSV(&asCSV, run)); err != nil {
		t.Fatal(err)
	}
	if row := strings.Fields(strings.Split(shown.String(), "\n")[3]); !slices.Equal(row[3:7], []string{"117µs", "179µs", format.Absent, format.Absent}) {
		t.Errorf("the table has %v", row)
	}
	rows, err := csv.NewReader(&asCSV).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for column, known := range map[string]bool{"service_p99_us": true, "service_p99_us_low": true, "service_p999_us": false, "service_p999_us_low": false, "response_p9999_us": false} {
		if got := rows[1][slices.Index(rows[0], column)]; (got != "") != known {
			t.Errorf("%s of the CSV is %q", column, got)
		}
	}
	for as, object := range map[audience]any{forPrograms: NewObject(run), forPage: newPageData(run)} {
		data, err := encode(object, as)
		if err != nil {
			t.Fatal(err)
		}
		var shown struct {
			Cells []struct {
				Service   map[string]any `json:"service_us"`
				Intervals map[string]any `json:"intervals"`
			} `json:"cells"`
		}
		if err := json.Unmarshal(data, &shown); err != nil {
			t.Fatal(err)
		}
		first := shown.Cells[0]
		p999, there := first.Service["p999"]
		if _, bounded := first.Intervals["service_us.p999"]; first.Service["p99"] == nil || !there || p999 != nil || bounded {
			t.Errorf("%s has %v", as, first.Service)
		}
	}
}

// What benchstat reads is what it will compare: one line per valid trial, in units
// that it knows.
func TestBenchstatIsReadBack(t *testing.T) {
	var out bytes.Buffer
	if err := export.WriteBenchstat(&out, fixtureRun(t).Summary, fixtureRun(t).Records); err != nil {
		t.Fatal(err)
	}
	type trial struct {
		name string
		mean float64 // seconds
	}
	var got []trial
	reader := benchfmt.NewReader(bytes.NewReader(out.Bytes()), "run")
	for reader.Scan() {
		switch r := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(r)
		case *benchfmt.Result:
			mean, _ := r.Value("sec/op")
			got = append(got, trial{r.Name.String(), mean})
			for _, unit := range []string{"req/s", "p50-sec", "p90-sec", "p99-sec"} {
				if value, there := r.Value(unit); !there || value <= 0 {
					t.Errorf("%s: %s is %v", r.Name, unit, value)
				}
			}
			if value, there := r.Value("p999-sec"); there {
				t.Errorf("%s: the P99.9 of 1,000 requests is %v", r.Name, value)
			}
			if r.Iters != 1000 || r.GetConfig("part") != "matrix" || r.GetConfig("run") != "kernel-study" {
				t.Errorf("%s: %d iterations, part %s, run %s", r.Name, r.Iters, r.GetConfig("part"), r.GetConfig("run"))
			}
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	want := []trial{
		{"Echo/stack=tcp/size=64/clients=50-1", 100.1e-6}, // the scenario has tcp first
		{"Echo/stack=tcp/size=64/clients=50-1", 102.1e-6},
		{"Echo/stack=tcp:buffers=pooled,inflight=50/size=64/clients=50-1", 400.4e-6},
		{"Echo/stack=grpc/size=64/clients=50-1", 101.1e-6},
	}
	if len(got) != len(want) {
		t.Fatalf("%d trials, want %d; trial 3 is invalid:\n%s", len(got), len(want), out.String())
	}
	for i := range want {
		if got[i].name != want[i].name || math.Abs(got[i].mean/want[i].mean-1) > 0.001 {
			t.Errorf("trial %d: %v, want %v", i, got[i], want[i])
		}
	}
	if units := reader.Units(); units.GetBetter("req/s") != 1 || units.GetBetter("sec/op") != -1 {
		t.Errorf("better: req/s %d, sec/op %d; want 1 and -1", units.GetBetter("req/s"), units.GetBetter("sec/op"))
	}
}

func TestBenchstatTellsTheCPUTimeThatIsKnown(t *testing.T) {
	run := fixtureRun(t)
	run.Records = run.Records[:1]
	user, system := int64(3_000_000), int64(2_000_000) // of 1,000 requests
	run.Records[0].Server.UserNS, run.Records[0].Server.SystemNS = &user, &system
	var out bytes.Buffer
	if err := export.WriteBenchstat(&out, run.Summary, run.Records); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), " 5000 server-cpu-ns\n") || strings.Contains(out.String(), " client-cpu-ns\n") {
		t.Errorf("the server took 5 µs a request, and of the client nothing is known:\n%s", out.String())
	}
}

// Cells that differ in their connections alone must not come out as repeats of
// one another.
func TestBenchstatTellsCellsApart(t *testing.T) {
	run := fixtureRun(t)
	run.Records = run.Records[:3]
	run.Records[2].Cell.Connection = "shared"
	var out bytes.Buffer
	if err := export.WriteBenchstat(&out, run.Summary, run.Records); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"BenchmarkEcho/stack=tcp/size=64/clients=50/connection=per-worker/load=closed-1 ",
		"BenchmarkEcho/stack=tcp/size=64/clients=50/connection=shared/load=closed-1 ",
		"BenchmarkEcho/stack=grpc/size=64/clients=50-1 ",
	} {
		if strings.Count(out.String(), name) != 1 {
			t.Errorf("no line %s:\n%s", name, out.String())
		}
	}
}

func TestHistogramLogIsReadBack(t *testing.T) {
	var out bytes.Buffer
	if err := export.WriteHistogramLog(&out, fixtureRun(t).Summary, fixtureRun(t).Records); err != nil {
		t.Fatal(err)
	}
	const key = "matrix/tcp:buffers=pooled+inflight=50/echo/64B/c=50/per-worker/closed:limit=50/"
	want := []struct {
		tag    string
		median time.Duration
	}{
		{"matrix/tcp/echo/64B/c=50/per-worker/closed/service", 100 * time.Microsecond},
		{"matrix/grpc/echo/64B/c=50/per-worker/closed/service", 101 * time.Microsecond},
		{"matrix/tcp/echo/64B/c=50/per-worker/closed/service", 102 * time.Microsecond},
		{key + "service", 104 * time.Microsecond},
		{key + "response", 400 * time.Microsecond},
		{key + "wait", 300 * time.Microsecond},
	}
	reader := hdrhistogram.NewHistogramLogReader(&out)
	for i, w := range want {
		histogram, err := reader.NextIntervalHistogram()
		if err != nil || histogram == nil {
			t.Fatalf("histogram %d: %v", i, err)
		}
		median := float64(histogram.ValueAtQuantile(50))
		if histogram.Tag() != w.tag || histogram.TotalCount() != 1000 || math.Abs(median/float64(w.median)-1) > 0.002 {
			t.Errorf("histogram %d: %s, %d samples, median %v ns; want %s, 1000, %v", i, histogram.Tag(), histogram.TotalCount(), median, w.tag, w.median)
		}
	}
	if more, err := reader.NextIntervalHistogram(); more != nil {
		t.Errorf("an invalid trial in the log: %s, %v", more.Tag(), err)
	}
}
