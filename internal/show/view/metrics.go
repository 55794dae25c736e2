package view

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
)

// Metrics holds a load's figures for systems that collect metrics. Counters cover the whole run.
type Metrics struct {
	Clients int
	Offered float64 // requests per second of an open loop; 0 for a closed loop or a changing rate

	guard    sync.Mutex // protects the fields below
	now      live.Progress
	calls    live.Calls // latest counts of the current load
	before   live.Calls // counts of earlier loads
	answered int64      // highest number of answers so far, because a counter must never fall
	running  bool
	trials   int64
	gates    []analysis.GateFinding
}

// Observe stores the client's report. A new trial's counts are added to the counts of earlier
// trials.
func (m *Metrics) Observe(e live.Event) {
	m.guard.Lock()
	defer m.guard.Unlock()
	switch e := e.(type) {
	case live.Begun:
		m.keepCounts()
		m.running, m.now = true, live.Progress{}
	case live.Ended:
		m.running, m.now = false, live.Progress{}
		m.trials++
		m.calls.InFlight, m.calls.Ended, m.calls.SpanNS = 0, 0, 0
	case live.Progress:
		m.progress(e)
	}
}

func (m *Metrics) progress(p live.Progress) {
	m.now = p
	if p.Live == nil {
		return
	}
	if p.Live.Total.Ended < m.calls.Total.Ended {
		m.keepCounts()
	}
	m.calls = *p.Live
}

// keepCounts adds the current load's counts to the counts of earlier loads.
func (m *Metrics) keepCounts() {
	m.before, m.calls = m.calls.Plus(m.before), live.Calls{}
}

// SetGates adds the outcomes of gates.
func (m *Metrics) SetGates(judged []analysis.GateFinding) {
	m.guard.Lock()
	defer m.guard.Unlock()
	m.gates = judged
}

// A Family holds the samples of one metric. A histogram has one sample without labels, and buckets.
type Family struct {
	Name, Help string
	Kind       FamilyKind
	Samples    []Sample
	Buckets    []Bucket
}

// FamilyKind is a kind of metric, as Prometheus names it.
type FamilyKind string

// The kinds of metrics.
const (
	CounterKind   FamilyKind = "counter"
	GaugeKind     FamilyKind = "gauge"
	HistogramKind FamilyKind = "histogram"
)

// A Sample is one value of a metric. The value of a histogram is the sum of its observations.
type Sample struct {
	Labels []Label
	Value  float64
}

// A Label is a label of a sample.
type Label struct{ Name, Value string }

// A Bucket counts the observations up to a bound, with those of all smaller buckets. The last bucket
// has no bound: it counts all.
type Bucket struct {
	UpTo  float64
	Count int64
}

// Families returns all metrics of this moment.
func (m *Metrics) Families() []Family {
	m.guard.Lock()
	defer m.guard.Unlock()
	sum := m.calls.Plus(m.before)
	all := []Family{
		m.requests(&sum),
		{
			Name: "wirelab_response_seconds", Help: "Response times of all calls, from their planned send.",
			Kind: HistogramKind, Samples: []Sample{{Value: float64(sum.Total.SumNS) / 1e9}}, Buckets: cumulate(&sum),
		},
	}
	gauge := func(name, help string, value float64) {
		all = append(all, Family{Name: name, Help: help, Kind: GaugeKind, Samples: []Sample{{Value: value}}})
	}
	flag := func(name, help string, is bool) { gauge(name, help, map[bool]float64{true: 1}[is]) }
	if m.calls.InFlight != live.UnknownInFlight {
		gauge("wirelab_in_flight", "Calls in flight.", float64(m.calls.InFlight))
	}
	if m.calls.SpanNS > 0 {
		gauge("wirelab_achieved_requests_per_second", "Ended calls per second, in the last two seconds.", float64(m.calls.Ended)/time.Duration(m.calls.SpanNS).Seconds())
		recent := Family{Name: "wirelab_recent_response_seconds", Help: "Percentiles of the response times, in the last two seconds.", Kind: GaugeKind}
		for _, p := range []struct {
			quantile string
			ns       int64
		}{{"0.5", m.calls.P50NS}, {"0.9", m.calls.P90NS}, {"0.99", m.calls.P99NS}, {"1", m.calls.MaxNS}} {
			recent.Samples = append(recent.Samples, Sample{[]Label{{"quantile", p.quantile}}, time.Duration(p.ns).Seconds()})
		}
		all = append(all, recent)
	}
	if m.Offered > 0 {
		gauge("wirelab_offered_requests_per_second", "Requested rate of the load.", m.Offered)
	}
	gauge("wirelab_clients", "Clients that send requests.", float64(m.Clients))
	flag("wirelab_running", "1 while a trial runs.", m.running)
	flag("wirelab_warming", "1 during warm-up.", m.running && m.now.Warming)
	flag("wirelab_paused", "1 while the load is paused.", m.now.Paused)
	gauge("wirelab_window_ratio", "Share of the window that is over.", m.now.Fraction)
	all = append(all, Family{Name: "wirelab_trials_total", Help: "Trials that ended.", Kind: CounterKind, Samples: []Sample{{Value: float64(m.trials)}}})
	if len(m.gates) > 0 {
		all = append(all, m.gateFamily())
	}
	return all
}

func (m *Metrics) gateFamily() Family {
	f := Family{Name: "wirelab_gate", Help: "The outcome of a gate: 0 kept, 1 breached, 2 unknown.", Kind: GaugeKind}
	numbers := map[analysis.GateOutcome]float64{analysis.GateKept: 0, analysis.GateBreached: 1, analysis.GateOpen: 2}
	for _, g := range m.gates {
		f.Samples = append(f.Samples, Sample{[]Label{{"condition", g.Gate}, {"cell", g.Cell}}, numbers[g.Outcome]})
	}
	return f
}

func (m *Metrics) requests(sum *live.Calls) Family {
	f := Family{Name: "wirelab_requests_total", Help: "Ended calls, also in the warm-up and after the window; failed calls by cause.", Kind: CounterKind}
	kinds, failed := slices.Clone(sum.Failures), int64(0)
	for _, kind := range kinds {
		failed += kind.Count
	}
	m.answered = max(m.answered, sum.Total.Ended-failed)
	f.Samples = append(f.Samples, Sample{[]Label{{"outcome", "ok"}, {"code", ""}, {"class", ""}}, float64(m.answered)})
	slices.SortFunc(kinds, func(a, b record.ErrorCount) int { return strings.Compare(a.Code+"\x00"+a.Class, b.Code+"\x00"+b.Class) })
	for _, kind := range kinds {
		f.Samples = append(f.Samples, Sample{[]Label{{"outcome", "failed"}, {"code", kind.Code}, {"class", kind.Class}}, float64(kind.Count)})
	}
	return f
}

// cumulate returns a bucket for every bound, so that rates exist from the first call on.
func cumulate(c *live.Calls) []Bucket {
	upToNS := map[int64]int64{}
	for _, bin := range c.Histogram {
		upToNS[bin.UpToNS] = bin.Count
	}
	var all []Bucket
	var cumulative int64
	for _, upTo := range live.Bounds() {
		cumulative += upToNS[upTo]
		all = append(all, Bucket{time.Duration(upTo).Seconds(), cumulative})
	}
	return append(all, Bucket{math.Inf(1), c.Total.Ended})
}

// Series returns the family's samples as Prometheus stores them: a histogram has a sample for each
// bucket, its sum and its count.
func (f *Family) Series() (names []string, samples []Sample) {
	add := func(suffix string, s Sample) { names, samples = append(names, f.Name+suffix), append(samples, s) }
	if f.Kind != HistogramKind {
		for _, s := range f.Samples {
			add("", s)
		}
		return names, samples
	}
	for _, b := range f.Buckets {
		add("_bucket", Sample{[]Label{{"le", formatNumber(b.UpTo)}}, float64(b.Count)})
	}
	add("_sum", f.Samples[0])
	add("_count", Sample{Value: float64(f.Buckets[len(f.Buckets)-1].Count)})
	return names, samples
}

// write writes Prometheus text (https://prometheus.io/docs/instrumenting/exposition_formats).
func (m *Metrics) write(w io.Writer) error {
	var text strings.Builder
	help, value := strings.NewReplacer(`\`, `\\`, "\n", `\n`), strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	for _, f := range m.Families() {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", f.Name, help.Replace(f.Help), f.Name, f.Kind)
		names, samples := f.Series()
		for i, s := range samples {
			text.WriteString(names[i])
			for j, l := range s.Labels {
				text.WriteString([]string{"{", ","}[min(j, 1)])
				fmt.Fprintf(&text, `%s="%s"`, l.Name, value.Replace(strings.ToValidUTF8(l.Value, "\uFFFD")))
			}
			if len(s.Labels) > 0 {
				text.WriteString("}")
			}
			fmt.Fprintf(&text, " %s\n", formatNumber(s.Value))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func formatNumber(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// MetricsServer serves metrics until Close.
type MetricsServer struct {
	server *http.Server
	ended  chan struct{}
	// address is the listening address. A port alone listens on loopback only.
	address string
}

// ServeMetrics serves at HOST:PORT, or at a loopback PORT, until Close or the end of ctx.
func ServeMetrics(ctx context.Context, address string, metrics *Metrics) (*MetricsServer, error) {
	where, err := MetricsAddress(address)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", where)
	if err != nil {
		return nil, fmt.Errorf("--metrics=%s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = metrics.write(w) // a closed connection needs no answer
	})
	var handler http.Handler = mux
	if host, _, _ := net.SplitHostPort(where); isLoopback(host) {
		handler = requireLoopbackHost(mux)
	}
	s := &MetricsServer{
		server: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute},
		ended:  make(chan struct{}), address: listener.Addr().String(),
	}
	go func() { // ends with Close, or ctx
		defer close(s.ended)
		_ = s.server.Serve(listener)
	}()
	context.AfterFunc(ctx, func() { _ = s.server.Close() })
	return s, nil
}

// Describe returns the address of the metrics, as a sentence.
func (s *MetricsServer) Describe() string {
	text := "metrics: http://" + s.address + "/metrics"
	if host, _, _ := net.SplitHostPort(s.address); isLoopback(host) {
		text += " (only for this machine; to serve other machines, give an address, as in 0.0.0.0:9090)"
	}
	return text
}

// Close ends the server.
func (s *MetricsServer) Close() error {
	err := s.server.Close()
	<-s.ended
	return err
}

// MetricsAddress returns the address to listen on, as HOST:PORT.
func MetricsAddress(flag string) (string, error) {
	const want = "want a port, as in :9090, or HOST:PORT"
	if _, err := strconv.ParseUint(flag, 10, 16); err == nil {
		flag = ":" + flag
	}
	host, port, err := net.SplitHostPort(flag)
	if err != nil {
		return "", fmt.Errorf("--metrics=%s: %s: %w", flag, want, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("--metrics=%s: %s: found port %s", flag, want, port)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
