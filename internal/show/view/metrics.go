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
)

// Metrics holds a load's figures for Prometheus (text format 0.0.4). Counters cover the whole run.
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

func (m *Metrics) write(w io.Writer) error {
	m.guard.Lock()
	defer m.guard.Unlock()
	sum := m.calls.Plus(m.before)
	var text exposition
	m.writeRequests(&text, &sum)
	text.writeHistogram("wirelab_response_seconds", "Response times of all calls, from their planned send.", &sum)
	if m.calls.InFlight != live.UnknownInFlight {
		text.writeGauge("wirelab_in_flight", "Calls in flight.", float64(m.calls.InFlight))
	}
	if m.calls.SpanNS > 0 {
		text.writeGauge("wirelab_achieved_requests_per_second", "Ended calls per second, in the last two seconds.", float64(m.calls.Ended)/time.Duration(m.calls.SpanNS).Seconds())
	}
	if m.Offered > 0 {
		text.writeGauge("wirelab_offered_requests_per_second", "Requested rate of the load.", m.Offered)
	}
	text.writeGauge("wirelab_clients", "Clients that send requests.", float64(m.Clients))
	text.writeFlag("wirelab_running", "1 while a trial runs.", m.running)
	text.writeFlag("wirelab_warming", "1 during warm-up.", m.running && m.now.Warming)
	text.writeFlag("wirelab_paused", "1 while the load is paused.", m.now.Paused)
	text.writeGauge("wirelab_window_ratio", "Share of the window that is over.", m.now.Fraction)
	text.writeHeader("wirelab_trials_total", "counter", "Trials that ended.")
	text.writeSample("wirelab_trials_total", nil, float64(m.trials))
	_, err := io.WriteString(w, text.String())
	return err
}

func (m *Metrics) writeRequests(text *exposition, sum *live.Calls) {
	const name = "wirelab_requests_total"
	text.writeHeader(name, "counter", "Ended calls, also in the warm-up and after the window; failed calls by cause.")
	kinds, failed := slices.Clone(sum.Failures), int64(0)
	for _, kind := range kinds {
		failed += kind.Count
	}
	m.answered = max(m.answered, sum.Total.Ended-failed)
	text.writeSample(name, []label{{"outcome", "ok"}, {"code", ""}, {"class", ""}}, float64(m.answered))
	slices.SortFunc(kinds, func(a, b record.ErrorCount) int { return strings.Compare(a.Code+"\x00"+a.Class, b.Code+"\x00"+b.Class) })
	for _, kind := range kinds {
		text.writeSample(name, []label{{"outcome", "failed"}, {"code", kind.Code}, {"class", kind.Class}}, float64(kind.Count))
	}
}

// An exposition is Prometheus text (https://prometheus.io/docs/instrumenting/exposition_formats).
type exposition struct{ strings.Builder }

type label struct{ name, value string }

func (e *exposition) writeHeader(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help), name, kind)
}

func (e *exposition) writeSample(name string, labels []label, value float64) {
	e.WriteString(name)
	for i, l := range labels {
		e.WriteString([]string{"{", ","}[min(i, 1)])
		fmt.Fprintf(e, `%s="%s"`, l.name, strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(l.value, "\uFFFD")))
	}
	if len(labels) > 0 {
		e.WriteString("}")
	}
	fmt.Fprintf(e, " %s\n", formatNumber(value))
}

func (e *exposition) writeGauge(name, help string, value float64) {
	e.writeHeader(name, "gauge", help)
	e.writeSample(name, nil, value)
}

func (e *exposition) writeFlag(name, help string, is bool) {
	e.writeGauge(name, help, map[bool]float64{true: 1}[is])
}

// writeHistogram writes a bucket for every bound, so that rates exist from the first call on.
func (e *exposition) writeHistogram(name, help string, c *live.Calls) {
	e.writeHeader(name, "histogram", help)
	upToNS := map[int64]int64{}
	for _, bin := range c.Histogram {
		upToNS[bin.UpToNS] = bin.Count
	}
	var cumulative int64
	for _, upTo := range live.Bounds() {
		cumulative += upToNS[upTo]
		e.writeSample(name+"_bucket", []label{{"le", formatNumber(time.Duration(upTo).Seconds())}}, float64(cumulative))
	}
	e.writeSample(name+"_bucket", []label{{"le", "+Inf"}}, float64(c.Total.Ended))
	e.writeSample(name+"_sum", nil, float64(c.Total.SumNS)/1e9)
	e.writeSample(name+"_count", nil, float64(c.Total.Ended))
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
