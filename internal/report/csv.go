package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"wirelab.dev/internal/analysis"
)

// csvColumn is one value of every row, with the unit in its title.
type csvColumn struct {
	title string
	value func(*Cell) string
}

// WriteCSV prints a row a cell, in full precision. What was not measured, or
// has no valid trial, is empty.
func WriteCSV(w io.Writer, run *Run) error {
	columns := csvColumns()
	rows := [][]string{make([]string, len(columns))}
	for i, c := range columns {
		rows[0][i] = c.title
	}
	for _, cell := range ordered(run.Summary.Cells) {
		shown := newCell(cell)
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.value(&shown)
		}
		rows = append(rows, row)
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

// csvColumns are what tells one cell from another, what was counted of it, and
// the figures that are tagged for it.
func csvColumns() []csvColumn {
	columns := []csvColumn{
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

// csvFields are the columns of the fields that are tagged `csv`. The tag of a
// struct is a pattern for the titles of its fields, with a star for theirs. The
// columns get at their struct by the function given, from a pointer to the
// cell; it returns the zero Value where there is none.
func csvFields(of reflect.Type, pattern string, in func(cell reflect.Value) reflect.Value) []csvColumn {
	var columns []csvColumn
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
		switch {
		case inner == figureType:
			columns = append(columns, csvFigure(title, get)...)
		case inner.Kind() == reflect.Struct:
			columns = append(columns, csvFields(inner, title, get)...)
		default:
			columns = append(columns, csvColumn{title, func(c *Cell) string { return csvText(c, get) }})
		}
	}
	return columns
}

// csvFigure is a figure and the ends of its interval.
func csvFigure(title string, get func(cell reflect.Value) reflect.Value) []csvColumn {
	var columns []csvColumn
	for i, suffix := range boundSuffixes {
		columns = append(columns, csvColumn{title + suffix, func(c *Cell) string {
			v := get(reflect.ValueOf(c))
			if !v.IsValid() || !c.HasFigures() {
				return ""
			}
			return csvNumber(withBounds(v.Interface().(analysis.Figure))[i])
		}})
	}
	return columns
}

// boundSuffixes follow a figure's title for what withBounds returns.
var boundSuffixes = [3]string{"", "_low", "_high"}

// withBounds returns a figure's value and the ends of its interval, which are NaN
// where there is none.
func withBounds(f analysis.Figure) [3]float64 {
	if f.Interval == nil {
		return [3]float64{f.Value, math.NaN(), math.NaN()}
	}
	return [3]float64{f.Value, f.Interval.Low, f.Interval.High}
}

// csvText is what is no figure.
func csvText(c *Cell, get func(cell reflect.Value) reflect.Value) string {
	v := get(reflect.ValueOf(c))
	switch {
	case !v.IsValid() || !c.HasFigures():
		return ""
	case v.CanFloat():
		return csvNumber(v.Float())
	}
	return fmt.Sprint(v)
}

func csvNumber(value float64) string {
	if !finite(value) {
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
