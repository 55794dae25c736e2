package push

import (
	"context"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"wirelab.dev/internal/show/view"
)

// A remoteWriter sends samples by Prometheus's remote write, version 1
// (https://prometheus.io/docs/specs/prw/remote_write_spec).
type remoteWriter struct {
	poster
	run string
}

func newRemoteWriter(to *url.URL, run string, header []Header) *remoteWriter {
	return &remoteWriter{run: run, poster: poster{url: to.String(), header: append(slices.Clone(header),
		Header{"Content-Type", "application/x-protobuf"}, Header{"Content-Encoding", "snappy"}, Header{"X-Prometheus-Remote-Write-Version", "0.1.0"})}}
}

func (w *remoteWriter) send(ctx context.Context, families []view.Family, _, now time.Time) error {
	return w.post(ctx, snappy.Encode(nil, w.encode(families, now)))
}

// encode encodes a prometheus.WriteRequest. The numbers are those of the fields in prompb/remote.proto
// and prompb/types.proto.
func (w *remoteWriter) encode(families []view.Family, now time.Time) (request []byte) {
	for _, f := range families {
		names, samples := f.Series()
		for i, s := range samples {
			labels := append(slices.Clone(s.Labels), view.Label{Name: "__name__", Value: names[i]}, view.Label{Name: "job", Value: "wirelab"}, view.Label{Name: "instance", Value: w.run})
			slices.SortFunc(labels, func(a, b view.Label) int { return strings.Compare(a.Name, b.Name) })
			var series []byte
			for _, l := range labels {
				if l.Value == "" { // an empty label is no label
					continue
				}
				var label []byte
				label = protowire.AppendString(protowire.AppendTag(label, 1, protowire.BytesType), l.Name)
				label = protowire.AppendString(protowire.AppendTag(label, 2, protowire.BytesType), strings.ToValidUTF8(l.Value, "\uFFFD"))
				series = protowire.AppendBytes(protowire.AppendTag(series, 1, protowire.BytesType), label)
			}
			var sample []byte
			sample = protowire.AppendFixed64(protowire.AppendTag(sample, 1, protowire.Fixed64Type), math.Float64bits(s.Value))
			sample = protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), uint64(now.UnixMilli())) //nolint:gosec // now is after 1970
			series = protowire.AppendBytes(protowire.AppendTag(series, 2, protowire.BytesType), sample)
			request = protowire.AppendBytes(protowire.AppendTag(request, 1, protowire.BytesType), series)
		}
	}
	return request
}
