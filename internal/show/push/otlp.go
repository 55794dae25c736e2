package push

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/show/view"
)

// An otlpSender sends metrics by OTLP over HTTP (https://opentelemetry.io/docs/specs/otlp). The messages
// are OpenTelemetry's. Its exporter is not used, because it registers gzip with gRPC: each measured
// gRPC client and server would announce that.
type otlpSender struct {
	poster
	resource *resource.Resource
}

// otlpPath is the standard path of metrics.
const otlpPath = "/v1/metrics"

func newOTLP(to *url.URL, run string, header []Header) (*otlpSender, error) {
	where := to
	var err error
	switch {
	case to != nil && strings.Trim(to.Path, "/") == "":
		where = to.JoinPath(otlpPath)
	case to != nil:
	case os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") != "":
		where, err = url.Parse(os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))
	default:
		if where, err = url.Parse(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")); err == nil {
			where = where.JoinPath(otlpPath)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the address of OpenTelemetry's environment variables: %w", err)
	}
	fields, err := headerOfEnvironment()
	if err != nil {
		return nil, err
	}
	return &otlpSender{
		poster:   poster{url: where.String(), header: append(append(fields, header...), Header{"Content-Type", "application/x-protobuf"})},
		resource: &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", "wirelab"), attribute("service.instance.id", run)}},
	}, nil
}

// headerOfEnvironment returns the fields of OTEL_EXPORTER_OTLP_HEADERS, as in a=b,c=d.
func headerOfEnvironment() (fields []Header, _ error) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"} {
		for field := range strings.SplitSeq(os.Getenv(variable), ",") {
			if strings.TrimSpace(field) == "" {
				continue
			}
			name, value, found := strings.Cut(field, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value))
			if !found || err != nil {
				return nil, fmt.Errorf("%s has a field without a name and a value: want name=value,name=value", variable)
			}
			fields = append(fields, Header{strings.TrimSpace(name), value})
		}
	}
	return fields, nil
}

func attribute(name, value string) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "\uFFFD")}}}
}

func (s *otlpSender) send(ctx context.Context, families []view.Family, begun, now time.Time) error {
	scope := &otlpb.ScopeMetrics{Scope: &common.InstrumentationScope{Name: "wirelab.dev"}}
	for _, f := range families {
		metric := &otlpb.Metric{Name: strings.TrimSuffix(f.Name, "_total"), Description: f.Help}
		setData(metric, &f, nanoseconds(begun), nanoseconds(now))
		scope.Metrics = append(scope.Metrics, metric)
	}
	// MetricsData is encoded as ExportMetricsServiceRequest is.
	data, err := proto.Marshal(&otlpb.MetricsData{ResourceMetrics: []*otlpb.ResourceMetrics{{Resource: s.resource, ScopeMetrics: []*otlpb.ScopeMetrics{scope}}}})
	if err != nil {
		return err
	}
	return s.post(ctx, data)
}

func nanoseconds(t time.Time) uint64 { return uint64(t.UnixNano()) } //nolint:gosec // t is after 1970

func setData(metric *otlpb.Metric, f *view.Family, begun, now uint64) {
	const cumulative = otlpb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	if f.Kind == view.HistogramKind {
		point := &otlpb.HistogramDataPoint{StartTimeUnixNano: begun, TimeUnixNano: now, Sum: &f.Samples[0].Value}
		before := int64(0)
		for i, b := range f.Buckets {
			point.BucketCounts = append(point.BucketCounts, uint64(b.Count-before)) //nolint:gosec // counts only grow from bucket to bucket
			before = b.Count
			if i < len(f.Buckets)-1 {
				point.ExplicitBounds = append(point.ExplicitBounds, b.UpTo)
			}
		}
		point.Count = uint64(before) //nolint:gosec // a count is not negative
		metric.Data = &otlpb.Metric_Histogram{Histogram: &otlpb.Histogram{AggregationTemporality: cumulative, DataPoints: []*otlpb.HistogramDataPoint{point}}}
		return
	}
	var points []*otlpb.NumberDataPoint
	for _, s := range f.Samples {
		point := &otlpb.NumberDataPoint{StartTimeUnixNano: begun, TimeUnixNano: now, Value: &otlpb.NumberDataPoint_AsDouble{AsDouble: s.Value}}
		for _, l := range s.Labels {
			if l.Value != "" {
				point.Attributes = append(point.Attributes, attribute(l.Name, l.Value))
			}
		}
		points = append(points, point)
	}
	if f.Kind == view.CounterKind {
		metric.Data = &otlpb.Metric_Sum{Sum: &otlpb.Sum{AggregationTemporality: cumulative, IsMonotonic: true, DataPoints: points}}
		return
	}
	metric.Data = &otlpb.Metric_Gauge{Gauge: &otlpb.Gauge{DataPoints: points}}
}
