package export

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// errNoSeries means that no trial was recorded second by second.
var errNoSeries = errors.New("the run has no figures per second: measure it with wirelab load --series FILE.csv")

// seriesTitles are the columns of WriteSeries. Times of calls are response times.
var seriesTitles = []string{"run", "clients", "start_s", "length_s", "requests", "failed", "requests_per_second", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"}

// WriteSeries prints one row per second and trial, in CSV. A second counts the calls that ended in it.
// start_s is negative in the warm-up, and percentiles without calls are empty.
func WriteSeries(w io.Writer, records []*record.Record) error {
	rows := [][]string{seriesTitles}
	for _, r := range records {
		for _, s := range r.Seconds {
			row, err := seriesRow(r, s)
			if err != nil {
				return fmt.Errorf("report: trial %d, second at %v: %w", r.Trial, time.Duration(s.StartNS), err)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 1 {
		return errNoSeries
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

func seriesRow(r *record.Record, s record.Second) ([]string, error) {
	number := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	row := []string{
		strconv.Itoa(r.Repeat), strconv.Itoa(r.Cell.Clients), number(float64(s.StartNS)/1e9, 3), number(float64(s.TookNS)/1e9, 3),
		strconv.FormatInt(s.Ended, 10), strconv.FormatInt(s.Failed, 10), number(float64(s.Ended)/float64(max(1, s.TookNS))*1e9, 1),
	}
	if s.Ended == 0 {
		return append(row, "", "", "", "", ""), nil
	}
	times, err := latency.DecodeCoarse(s.Histogram)
	if err != nil {
		return nil, err
	}
	for _, t := range []time.Duration{times.Mean(), times.Quantile(0.5), times.Quantile(0.9), times.Quantile(0.99), times.Quantile(1)} {
		row = append(row, number(float64(t)/1e6, 4))
	}
	return row, nil
}
