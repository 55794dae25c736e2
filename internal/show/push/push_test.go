package push

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/klauspost/compress/snappy"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/view"
)

// remoteProto has the fields of remote write that wirelab sends, as in prometheus/prompb.
const remoteProto = `syntax = "proto3";
message WriteRequest { repeated TimeSeries timeseries = 1; }
message TimeSeries { repeated Label labels = 1; repeated Sample samples = 2; }
message Label { string name = 1; string value = 2; }
message Sample { double value = 1; int64 timestamp = 2; }`

// A receiver keeps what the last push had.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	pushes int
	body   []byte
	header http.Header
	path   string
	status int // of the next answers; 0 means 200
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pushes++
		r.body, _ = io.ReadAll(request.Body)
		r.header, r.path = request.Header, request.URL.Path
		if r.status != 0 {
			http.Error(w, "the disk is full", r.status)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) fail(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// someMetrics has 300 calls, 3 of them failed, and a breached gate.
func someMetrics() *view.Metrics {
	m := &view.Metrics{Clients: 10, Offered: 500}
	m.Observe(live.Begun{})
	m.Observe(live.Progress{Live: &live.Calls{
		SpanNS: 2e9, Ended: 100, P99NS: 5e6,
		Total:     live.Total{Ended: 300, Failed: 3, SumNS: 6e9},
		Histogram: []live.Bin{{UpToNS: 1_024_000, Count: 299}, {UpToNS: 0, Count: 1}},
		Failures:  []record.ErrorCount{{Class: "reset", Count: 3}},
	}})
	m.SetGates([]analysis.GateFinding{{Gate: "p99>20ms", Cell: "GET /", Outcome: analysis.GateBreached}})
	return m
}

// pushAll pushes at the start and at the end.
func pushAll(t *testing.T, text string, header ...Header) error {
	t.Helper()
	target, err := ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), someMetrics(), "run-1", []Target{target}, header)
	if err != nil {
		return err
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel() // the end of a load that the user ended is pushed, too
	return p.Close(cancelled)
}

func TestRemoteWrite(t *testing.T) {
	r := newReceiver(t)
	if err := pushAll(t, "prometheus="+r.URL+"/api/v1/write", Header{"Authorization", "Bearer x"}); err != nil {
		t.Fatal(err)
	}
	if r.pushes < 2 || r.path != "/api/v1/write" || r.header.Get("Authorization") != "Bearer x" ||
		r.header.Get("Content-Encoding") != "snappy" || r.header.Get("X-Prometheus-Remote-Write-Version") != "0.1.0" {
		t.Errorf("%d pushes to %s with %v", r.pushes, r.path, r.header)
	}
	plain, err := snappy.Decode(nil, r.body)
	if err != nil {
		t.Fatal(err)
	}
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"remote.proto": remoteProto})}}
	files, err := compiler.Compile(t.Context(), "remote.proto")
	if err != nil {
		t.Fatal(err)
	}
	request := dynamicpb.NewMessage(files[0].Messages().ByName("WriteRequest"))
	if err := proto.Unmarshal(plain, request); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	all := request.Get(request.Descriptor().Fields().ByName("timeseries")).List()
	for i := range all.Len() {
		series := all.Get(i).Message()
		fields := series.Descriptor().Fields()
		var name strings.Builder
		before := ""
		labels := series.Get(fields.ByName("labels")).List()
		for j := range labels.Len() {
			label := labels.Get(j).Message()
			of := label.Descriptor().Fields()
			key := label.Get(of.ByName("name")).String()
			if key <= before {
				t.Errorf("the label %s follows %s: they must be sorted", key, before)
			}
			before = key
			name.WriteString(key + "=" + label.Get(of.ByName("value")).String() + " ")
		}
		samples := series.Get(fields.ByName("samples")).List()
		sample := samples.Get(0).Message()
		if at := sample.Get(sample.Descriptor().Fields().ByName("timestamp")).Int(); samples.Len() != 1 || at < 1e12 {
			t.Errorf("%s: %d samples, the first at %d ms", name.String(), samples.Len(), at)
		}
		got[strings.TrimSpace(name.String())] = sample.Get(sample.Descriptor().Fields().ByName("value")).Float()
	}
	for series, want := range map[string]float64{
		"__name__=wirelab_requests_total instance=run-1 job=wirelab outcome=ok":                 297,
		"__name__=wirelab_requests_total class=reset instance=run-1 job=wirelab outcome=failed": 3,
		"__name__=wirelab_response_seconds_sum instance=run-1 job=wirelab":                      6,
		"__name__=wirelab_response_seconds_bucket instance=run-1 job=wirelab le=0.001024":       299,
		"__name__=wirelab_response_seconds_bucket instance=run-1 job=wirelab le=+Inf":           300,
		"__name__=wirelab_recent_response_seconds instance=run-1 job=wirelab quantile=0.99":     0.005,
		"__name__=wirelab_gate cell=GET / condition=p99>20ms instance=run-1 job=wirelab":        1,
	} {
		if value, has := got[series]; !has || math.Abs(value-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", series, value, want)
		}
	}
}

func TestOTLP(t *testing.T) {
	r := newReceiver(t)
	for _, text := range []string{"otlp=" + r.URL, "otlp"} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20x, a=b")
		if err := pushAll(t, text, Header{"X-Scope-Orgid", "7"}); err != nil {
			t.Fatal(err)
		}
		if r.path != "/v1/metrics" || r.header.Get("X-Scope-Orgid") != "7" || r.header.Get("Authorization") != "Bearer x" || r.header.Get("A") != "b" {
			t.Errorf("%s: pushed to %s with %v", text, r.path, r.header)
		}
		var request metricspb.MetricsData
		if err := proto.Unmarshal(r.body, &request); err != nil {
			t.Fatal(err)
		}
		resource := request.ResourceMetrics[0]
		if of := resource.Resource.Attributes[1]; of.Key != "service.instance.id" || of.Value.GetStringValue() != "run-1" {
			t.Errorf("%s: the resource is %v", text, resource.Resource)
		}
		got := map[string]*metricspb.Metric{}
		for _, m := range resource.ScopeMetrics[0].Metrics {
			got[m.Name] = m
		}
		requests := got["wirelab_requests"].GetSum()
		if !requests.GetIsMonotonic() || requests.DataPoints[0].GetAsDouble() != 297 || requests.DataPoints[1].GetAsDouble() != 3 {
			t.Errorf("%s: requests %v", text, requests)
		}
		times := got["wirelab_response_seconds"].GetHistogram().DataPoints[0]
		if times.Count != 300 || times.GetSum() != 6 || times.BucketCounts[10] != 299 || times.BucketCounts[len(times.BucketCounts)-1] != 1 ||
			len(times.ExplicitBounds) != len(times.BucketCounts)-1 || times.ExplicitBounds[10] != 0.001024 {
			t.Errorf("%s: response times %v", text, times)
		}
		if gate := got["wirelab_gate"].GetGauge().DataPoints[0]; gate.GetAsDouble() != 1 || len(gate.Attributes) != 2 {
			t.Errorf("%s: gate %v", text, gate)
		}
	}
}

// TestFailedPushes wants a load not to begin without its receiver, and its end to tell of lost pushes.
func TestFailedPushes(t *testing.T) {
	for _, protocol := range []string{"prometheus", "otlp"} {
		r := newReceiver(t)
		r.fail(http.StatusInsufficientStorage)
		text := protocol + "=" + r.URL + "/write"
		if err := pushAll(t, text); err == nil || !strings.Contains(err.Error(), "--push "+text) || !strings.Contains(err.Error(), "507") {
			t.Errorf("%s: %v", protocol, err)
		}
		r.fail(0)
		target, _ := ParseTarget(text)
		p, err := Start(t.Context(), someMetrics(), "run-1", []Target{target}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.fail(http.StatusInsufficientStorage)
		if err := p.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "pushes of metrics failed; the last one: --push "+text) {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}

func TestWrongTargets(t *testing.T) {
	for _, text := range []string{"", "statsd", "prometheus", "prometheus=9090", "otlp=grpc://h:4317", "otlp=http://"} {
		if _, err := ParseTarget(text); err == nil || !strings.Contains(err.Error(), "want otlp, otlp=http://HOST:4318, or prometheus=") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
