package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"wirelab.dev/internal/analysis"
)

// csvColumn is one figure of every row, with the unit in its title.
type csvColumn struct {
	title string
	value func(*analysis.Cell) string
}

// WriteCSV prints a row a cell, in full precision. What was not measured, or
// has no valid trial, is empty.
func WriteCSV(w io.Writer, run *Run) error {
	table := csv.NewWriter(w)
	columns := csvColumns()
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.title
	}
	if err := table.Write(row); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	for _, cell := range ordered(run.Summary.Cells) {
		for i, c := range columns {
			row[i] = c.value(cell)
		}
		if err := table.Write(row); err != nil {
			return fmt.Errorf("report: writing CSV: %w", err)
		}
	}
	table.Flush()
	if err := table.Error(); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

func csvColumns() []csvColumn {
	columns := []csvColumn{
		{"part", func(c *analysis.Cell) string { return c.Part }},
		{"stack", func(c *analysis.Cell) string { return c.Stack }},
		{"variant", func(c *analysis.Cell) string { return c.Variant }},
		{"workload", func(c *analysis.Cell) string { return c.Workload }},
		{"request_bytes", func(c *analysis.Cell) string { return strconv.Itoa(c.RequestBytes) }},
		{"response_bytes", func(c *analysis.Cell) string { return strconv.Itoa(c.ResponseBytes) }},
		{"clients", func(c *analysis.Cell) string { return strconv.Itoa(c.Clients) }},
		{"connection", func(c *analysis.Cell) string { return c.Connection }},
		{"load", func(c *analysis.Cell) string { return c.Load.Model }},
		{"rate_rps", func(c *analysis.Cell) string { return positive(c.Load.RatePerSecond) }},
		{"ramp_to_rps", func(c *analysis.Cell) string { return positive(c.Load.RampTo) }},
		{"burst", func(c *analysis.Cell) string { return positive(float64(c.Load.Burst)) }},
		{"goal", func(c *analysis.Cell) string { return c.Load.Goal }},
		{"in_flight_limit", func(c *analysis.Cell) string { return positive(float64(c.Load.InFlightLimit)) }},
		{"trials", func(c *analysis.Cell) string { return strconv.Itoa(c.Trials) }},
		{"valid_trials", func(c *analysis.Cell) string { return strconv.Itoa(c.Valid) }},
		{"requests", func(c *analysis.Cell) string { return strconv.FormatInt(c.Requests, 10) }},
		{"errors", func(c *analysis.Cell) string { return strconv.FormatInt(c.Errors, 10) }},
	}
	columns = append(columns, csvFigure("throughput_rps", func(c *analysis.Cell) *analysis.Figure { return &c.Throughput })...)
	columns = append(columns, csvLatencies("service", func(c *analysis.Cell) *analysis.Latencies { return &c.Service })...)
	columns = append(columns, csvLatencies("response", response)...)
	columns = append(columns, csvLatencies("wait", func(c *analysis.Cell) *analysis.Latencies { return c.Wait })...)
	columns = append(columns, csvFigure("p99_over_p50", func(c *analysis.Cell) *analysis.Figure { return &c.P99OverP50 })...)
	columns = append(columns, csvFigure("client_cpu_us", func(c *analysis.Cell) *analysis.Figure { return c.ClientCPU })...)
	columns = append(columns, csvFigure("server_cpu_us", func(c *analysis.Cell) *analysis.Figure { return c.ServerCPU })...)
	columns = append(columns, csvFigure("in_flight", func(c *analysis.Cell) *analysis.Figure { return &c.InFlight })...)
	columns = append(columns, csvFigure("warm_up_ms", func(c *analysis.Cell) *analysis.Figure { return &c.WarmUp })...)
	columns = append(columns, csvFigure("connections_opened", func(c *analysis.Cell) *analysis.Figure { return &c.Opened })...)
	columns = append(columns, csvLoads()...)
	columns = append(columns, csvConnections()...)
	columns = append(columns, csvEnd("client", func(c *analysis.Cell) *analysis.End { return &c.Client })...)
	columns = append(columns, csvEnd("server", func(c *analysis.Cell) *analysis.End { return &c.Server })...)
	columns = append(columns, csvColumn{"bound", func(c *analysis.Cell) string { return string(c.Bound) }})
	return append(columns, csvBytes()...)
}

// csvFigure is a figure and the ends of its interval.
func csvFigure(title string, of func(*analysis.Cell) *analysis.Figure) []csvColumn {
	show := func(part func(*analysis.Figure) (float64, bool)) func(*analysis.Cell) string {
		return func(c *analysis.Cell) string {
			f := of(c)
			if f == nil || !c.HasFigures() {
				return ""
			}
			value, known := part(f)
			if !known || !finite(value) {
				return ""
			}
			return strconv.FormatFloat(value, 'g', -1, 64)
		}
	}
	return []csvColumn{
		{title, show(func(f *analysis.Figure) (float64, bool) { return f.Value, true })},
		{title + "_low", show(func(f *analysis.Figure) (float64, bool) {
			if f.Interval == nil {
				return 0, false
			}
			return f.Interval.Low, true
		})},
		{title + "_high", show(func(f *analysis.Figure) (float64, bool) {
			if f.Interval == nil {
				return 0, false
			}
			return f.Interval.High, true
		})},
	}
}

func csvLatencies(prefix string, of func(*analysis.Cell) *analysis.Latencies) []csvColumn {
	figures := []struct {
		name string
		of   func(*analysis.Latencies) *analysis.Figure
	}{
		{"mean", func(l *analysis.Latencies) *analysis.Figure { return &l.Mean }},
		{"p50", func(l *analysis.Latencies) *analysis.Figure { return &l.P50 }},
		{"p90", func(l *analysis.Latencies) *analysis.Figure { return &l.P90 }},
		{"p95", func(l *analysis.Latencies) *analysis.Figure { return &l.P95 }},
		{"p99", func(l *analysis.Latencies) *analysis.Figure { return &l.P99 }},
		{"p999", func(l *analysis.Latencies) *analysis.Figure { return &l.P999 }},
		{"p9999", func(l *analysis.Latencies) *analysis.Figure { return &l.P9999 }},
		{"max", func(l *analysis.Latencies) *analysis.Figure { return &l.Max }},
	}
	var columns []csvColumn
	for _, figure := range figures {
		columns = append(columns, csvFigure(prefix+"_"+figure.name+"_us", func(c *analysis.Cell) *analysis.Figure {
			latencies := of(c)
			if latencies == nil {
				return nil
			}
			return figure.of(latencies)
		})...)
	}
	return columns
}

func positive(value float64) string {
	if value <= 0 {
		return ""
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}
