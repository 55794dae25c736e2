package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// A csvColumn is one value of every row, with the unit in its title.
type csvColumn[Row any] struct {
	title string
	value func(Row) string
}

// WriteCSV prints one row per cell, in full precision. A figure that was not
// measured, or that has no valid trial, is empty.
func WriteCSV(w io.Writer, run *Run) error {
	var rows []*Cell
	for _, cell := range table.Ordered(run.Summary.Cells) {
		rows = append(rows, new(newCell(cell)))
	}
	return writeRows(w, csvColumns(), rows)
}

func writeRows[Row any](w io.Writer, columns []csvColumn[Row], rows []Row) error {
	lines := [][]string{nil}
	for _, c := range columns {
		lines[0] = append(lines[0], c.title)
	}
	for _, row := range rows {
		var line []string
		for _, c := range columns {
			line = append(line, c.value(row))
		}
		lines = append(lines, line)
	}
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

// csvColumns returns what identifies a cell, its counts, and the figures that have the
// tag `csv`.
func csvColumns() []csvColumn[*Cell] {
	columns := []csvColumn[*Cell]{
		{"part", func(c *Cell) string { return c.Part }},
		{"stack", func(c *Cell) string { return c.Stack }},
		{"variant", func(c *Cell) string { return c.Variant }},
		{"workload", func(c *Cell) string { return c.Workload }},
		{"request_bytes", func(c *Cell) string { return strconv.Itoa(c.RequestBytes) }},
		{"response_bytes", func(c *Cell) string { return strconv.Itoa(c.ResponseBytes) }},
		{"clients", func(c *Cell) string { return strconv.Itoa(c.Clients) }},
		{"connection", func(c *Cell) string { return c.Connection }},
		{"load", func(c *Cell) string { return c.Load.Model }},
		{"rate_rps", func(c *Cell) string { return positive(c.Load.RatePerSecond) }},
		{"ramp_to_rps", func(c *Cell) string { return positive(c.Load.RampTo) }},
		{"burst", func(c *Cell) string { return positive(float64(c.Load.Burst)) }},
		{"goal", func(c *Cell) string { return c.Load.Goal }},
		{"in_flight_limit", func(c *Cell) string { return positive(float64(c.Load.InFlightLimit)) }},
		{"trials", func(c *Cell) string { return strconv.Itoa(c.Trials) }},
		{"valid_trials", func(c *Cell) string { return strconv.Itoa(c.Valid) }},
		{"requests", func(c *Cell) string { return strconv.FormatInt(c.Requests, 10) }},
		{"errors", func(c *Cell) string { return strconv.FormatInt(c.Errors, 10) }},
	}
	return append(columns, csvFields(reflect.TypeFor[Cell](), "*", reflect.Value.Elem)...)
}

// csvFields returns the columns of the fields that are tagged `csv`. The tag of a
// struct is a pattern for the titles of its fields, with a star for theirs. The
// columns get at their struct by the function given, from a pointer to the
// cell; it returns the zero Value where there is none.
func csvFields(of reflect.Type, pattern string, in func(cell reflect.Value) reflect.Value) []csvColumn[*Cell] {
	var columns []csvColumn[*Cell]
	for _, m := range membersOf(of, forPrograms) {
		tag, tagged := m.Tag.Lookup("csv")
		if !tagged {
			continue
		}
		title := strings.Replace(pattern, "*", tag, 1)
		get := func(cell reflect.Value) reflect.Value {
			v := in(cell)
			if v.IsValid() {
				v = reflect.Indirect(v.FieldByIndex(m.Index))
			}
			return v
		}
		inner := m.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		known := func(c *Cell) (v reflect.Value, ok bool) {
			v = get(reflect.ValueOf(c))
			return v, v.IsValid() && c.HasFigures()
		}
		switch {
		case inner == figureType:
			columns = append(columns, bounded(title, csvNumber, func(c *Cell) *matrix.Figure {
				if v, ok := known(c); ok {
					return new(v.Interface().(matrix.Figure))
				}
				return nil
			})...)
		case inner.Kind() == reflect.Struct:
			columns = append(columns, csvFields(inner, title, get)...)
		default:
			columns = append(columns, csvColumn[*Cell]{title, func(c *Cell) string {
				v, ok := known(c)
				switch {
				case !ok:
					return ""
				case v.CanFloat():
					return csvNumber(v.Float())
				}
				return fmt.Sprint(v)
			}})
		}
	}
	return columns
}

// bounded returns the columns of a figure and the ends of its interval, each empty where there is none.
func bounded[Row any](title string, show func(float64) string, of func(Row) *matrix.Figure) []csvColumn[Row] {
	column := func(suffix string, pick func(*matrix.Figure) float64) csvColumn[Row] {
		return csvColumn[Row]{title + suffix, func(row Row) string {
			f := of(row)
			if f == nil || suffix != "" && f.Interval == nil {
				return ""
			}
			return show(pick(f))
		}}
	}
	return []csvColumn[Row]{
		column("", func(f *matrix.Figure) float64 { return f.Value }),
		column("_low", func(f *matrix.Figure) float64 { return f.Interval.Low }),
		column("_high", func(f *matrix.Figure) float64 { return f.Interval.High }),
	}
}

func csvNumber(value float64) string {
	if !format.Finite(value) {
		return ""
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func positive(value float64) string {
	if value <= 0 {
		return ""
	}
	return csvNumber(value)
}
