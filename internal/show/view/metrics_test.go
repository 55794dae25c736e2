package view

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
)

// oneLoad returns the progress that a client reports of a load.
func oneLoad(ended, failed int64) live.Progress {
	return live.Progress{Fraction: 0.5, Live: &live.Calls{
		SpanNS: 2e9, Ended: ended / 2, InFlight: 7,
		Total:     live.Total{Ended: ended, Failed: failed, SumNS: ended * 1e6},
		Histogram: []live.Bin{{UpToNS: 1_024_000, Count: ended - 1}, {UpToNS: 0, Count: 1}},
		Failures:  []record.ErrorCount{{Class: "tls-alert: \"bad\\certificate\"\n", Code: "Unavailable", Count: failed}},
	}}
}

func TestMetricsAddUpAllLoads(t *testing.T) {
	m := &Metrics{Clients: 10, Offered: 500}
	m.Observe(live.Begun{})
	m.Observe(oneLoad(100, 2))
	m.Observe(oneLoad(300, 3))
	first := exposed(t, m)
	m.Observe(oneLoad(50, 1)) // a step of a search begins
	m.Observe(live.Ended{})
	m.Observe(live.Begun{})
	m.Observe(oneLoad(1000, 4))
	last := exposed(t, m)
	failed := `wirelab_requests_total{outcome="failed",code="Unavailable",class="tls-alert: \"bad\\certificate\"\n"}`
	ok := `wirelab_requests_total{outcome="ok",code="",class=""}`
	for _, c := range []struct {
		of     map[string]float64
		sample string
		want   float64
	}{
		{first, ok, 297},
		{first, failed, 3},
		{first, "wirelab_achieved_requests_per_second", 75},
		{last, ok, 1350 - 8},
		{last, failed, 8},
		{last, "wirelab_response_seconds_count", 1350},
		{last, "wirelab_response_seconds_sum", 1.35},
		{last, `wirelab_response_seconds_bucket{le="0.000512"}`, 0},
		{last, `wirelab_response_seconds_bucket{le="0.001024"}`, 1347},
		{last, `wirelab_response_seconds_bucket{le="67.108864"}`, 1347},
		{last, `wirelab_response_seconds_bucket{le="+Inf"}`, 1350},
		{last, "wirelab_in_flight", 7},
		{last, "wirelab_offered_requests_per_second", 500},
		{last, "wirelab_clients", 10},
		{last, "wirelab_running", 1},
		{last, "wirelab_window_ratio", 0.5},
		{last, "wirelab_trials_total", 1},
	} {
		if got, there := c.of[c.sample]; !there || got != c.want {
			t.Errorf("%s is %v, want %v", c.sample, got, c.want)
		}
	}
}

// A counter does not go back, though failures are read a moment after the calls.
func TestMetricsDoNotGoBack(t *testing.T) {
	m := &Metrics{}
	m.Observe(live.Begun{})
	m.Observe(oneLoad(100, 2))
	before := exposed(t, m)
	m.Observe(oneLoad(100, 5))
	after := exposed(t, m)
	for name, value := range before {
		if strings.Contains(name, "_total") && after[name] < value {
			t.Errorf("%s went from %v to %v", name, value, after[name])
		}
	}
}

func TestMetricsAreServed(t *testing.T) {
	m := &Metrics{}
	s, err := ServeMetrics(t.Context(), ":0", m)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.address, "127.0.0.1:") || !strings.Contains(s.Describe(), "only for this machine") {
		t.Errorf("a port alone listens on %s, and says %q", s.address, s.Describe())
	}
	answer, err := http.Get("http://" + s.address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("its type is %s", kind)
	}
	parseMetrics(t, string(body))
	foreign, err := http.NewRequest(http.MethodGet, "http://"+s.address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Host = "rebound.example"
	refused, err := http.DefaultClient.Do(foreign)
	if err != nil {
		t.Fatal(err)
	}
	refused.Body.Close()
	if refused.StatusCode != http.StatusForbidden {
		t.Errorf("who asks for another host is answered with %s", refused.Status)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestMetricsAddress(t *testing.T) {
	for flag, want := range map[string]string{
		":9090": "127.0.0.1:9090", "9090": "127.0.0.1:9090", "0.0.0.0:9090": "0.0.0.0:9090", "[::1]:0": "[::1]:0",
		"": "", "host": "", ":http": "", "1.2.3.4": "", ":70000": "", "-1": "",
	} {
		got, err := MetricsAddress(flag)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", flag, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "--metrics") {
			t.Errorf("%q: the error names no flag: %v", flag, err)
		}
	}
}

// promtool is Prometheus' own judge, where it is installed.
func TestPromtoolFindsNothing(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; the parser of these tests judges in its place")
	}
	m := &Metrics{Clients: 3, Offered: 5}
	m.Observe(live.Begun{})
	m.Observe(oneLoad(100, 2))
	var text strings.Builder
	if err := m.write(&text); err != nil {
		t.Fatal(err)
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text.String())
	if found, err := check.CombinedOutput(); err != nil || len(found) > 0 {
		t.Errorf("promtool: %v\n%s", err, found)
	}
}

// exposed returns the values of the metrics, by the text of each sample before its value.
func exposed(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	var text strings.Builder
	if err := m.write(&text); err != nil {
		t.Fatal(err)
	}
	return parseMetrics(t, text.String())
}

var (
	metricHead   = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	metricSample = regexp.MustCompile(`^(([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*",?)*)\})?) (\S+)$`)
)

// parseMetrics is strict: each family once with help and type before its samples, no sample
// twice, histograms whose buckets ascend and end with their count.
func parseMetrics(t *testing.T, text string) map[string]float64 {
	t.Helper()
	samples, kinds, helped := map[string]float64{}, map[string]string{}, map[string]bool{}
	family, le, cumulative := "", math.Inf(-1), -1.0
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if head := metricHead.FindStringSubmatch(line); head != nil {
			name := head[2]
			switch {
			case head[1] == "HELP" && (helped[name] || kinds[name] != ""):
				t.Errorf("%s has two heads", name)
			case head[1] == "TYPE" && (!helped[name] || !slices.Contains([]string{"counter", "gauge", "histogram"}, head[3])):
				t.Errorf("%s: its help comes before its type, which is none of these: %s", name, head[3])
			case head[1] == "TYPE":
				kinds[name] = head[3]
			}
			helped[name] = true
			family, le, cumulative = name, math.Inf(-1), -1
			continue
		}
		s := metricSample.FindStringSubmatch(line)
		if s == nil {
			t.Fatalf("no line of the format: %q", line)
		}
		value, err := strconv.ParseFloat(s[4], 64)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		base := s[2]
		if kinds[family] == "histogram" {
			base = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(base, "_bucket"), "_sum"), "_count")
		}
		if _, twice := samples[s[1]]; twice || base != family || kinds[family] == "" {
			t.Errorf("%s: twice, or not below its own head", line)
		}
		if kinds[family] == "counter" && !strings.HasSuffix(s[2], "_total") {
			t.Errorf("%s: a counter ends in _total", s[2])
		}
		if strings.HasSuffix(s[2], "_bucket") {
			var bound string
			if _, err := fmt.Sscanf(s[3], "le=%q", &bound); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			upTo, err := strconv.ParseFloat(bound, 64)
			if err != nil || upTo <= le || value < cumulative {
				t.Errorf("%s: its buckets do not ascend", line)
			}
			le, cumulative = upTo, value
		}
		if strings.HasSuffix(s[2], "_count") && (!math.IsInf(le, 1) || value != cumulative) {
			t.Errorf("%s: the last bucket is up to %v and has %v", line, le, cumulative)
		}
		samples[s[1]] = value
	}
	return samples
}

// TestTheDashboardHasItsMetrics wants each metric that Grafana's dashboard asks for to exist.
func TestTheDashboardHasItsMetrics(t *testing.T) {
	dashboard, err := os.ReadFile("../../../deploy/grafana/load.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(dashboard) {
		t.Error("deploy/grafana/load.json is not JSON")
	}
	m := &Metrics{Offered: 1}
	m.Observe(live.Begun{})
	m.Observe(oneLoad(100, 2))
	m.SetGates([]analysis.GateFinding{{Gate: "p99>1ms", Cell: "GET /", Outcome: analysis.GateOpen}})
	known := map[string]bool{}
	for sample := range exposed(t, m) {
		name, _, _ := strings.Cut(sample, "{")
		known[name] = true
	}
	asked := regexp.MustCompile(`wirelab_\w+`).FindAllString(string(dashboard), -1)
	if len(asked) < 10 {
		t.Errorf("the dashboard asks only for %v", asked)
	}
	for _, name := range asked {
		if !known[name] {
			t.Errorf("the dashboard asks for %s, which no load has", name)
		}
	}
}
