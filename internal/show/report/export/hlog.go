package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
)

// WriteHistogramLog prints the histograms of the valid trials, in order of time, in HdrHistogram's
// log format, which its tools plot and merge. The trials of a cell share three tags: for service
// time, response time and the wait for the in-flight limit.
func WriteHistogramLog(w io.Writer, s *analysis.Summary, records []*record.Record) error {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b *record.Record) int { return a.Started.Compare(b.Started) })
	log, err := latency.NewLogWriter(w, s.Started)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, r := range records {
		if !r.Valid() {
			continue
		}
		if err := writeTrialHistograms(log, r); err != nil {
			return fmt.Errorf("report: trial %d: %w", r.Trial, err)
		}
	}
	return nil
}

func writeTrialHistograms(log *latency.LogWriter, r *record.Record) error {
	for _, kind := range []struct {
		name  string
		times *latency.Distribution
	}{{"service", &r.Service}, {"response", r.Response}, {"wait", r.Wait}} {
		if kind.times == nil || kind.times.OnlyTotals() {
			continue
		}
		histogram, err := kind.times.Decode()
		if err != nil {
			return err
		}
		err = log.Write(latency.Interval{
			Tag:       histogramTag(&r.Cell, kind.name),
			Start:     r.Started,
			Length:    time.Duration(r.WindowNS),
			Histogram: histogram,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// histogramTag names the cell and the kind of times. Tags must not contain commas or blanks.
func histogramTag(c *record.Cell, kind string) string {
	parts := []string{c.Key(), c.Connection, loadKey(c.Load), kind}
	return strings.NewReplacer(",", "+", " ", "_").Replace(strings.Join(parts, "/"))
}
