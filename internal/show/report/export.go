package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/export"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
	"wirelab.dev/internal/show/report/table"
)

// A Format is a file format that other tools read.
type Format struct {
	Name  string // name on the command line
	About string // one line for the help
	Write func(io.Writer, *Run) error
}

// Formats lists all formats. A new one needs a file and a line here.
func Formats() []Format {
	return []Format{
		{Name: "csv", About: "one row per cell, with units in the column names", Write: WriteCSV},
		{Name: "json", About: "the same JSON object as --json prints", Write: WriteJSON},
		{Name: "benchstat", About: "Go benchmark text, one line per trial", Write: func(w io.Writer, run *Run) error { return export.WriteBenchstat(w, run.Summary, run.Records) }},
		{Name: "markdown", About: "a page with the machine, the claims, and a table per point", Write: func(w io.Writer, run *Run) error { return gate.WriteBoard(w, run.GateRun()) }},
		{Name: "scenarios", About: "one row per cell with a study's columns, compared with the first cell of its part", Write: WriteStudyTable},
		{Name: "allocations", About: "call trees that allocate memory, from trials that profiled allocations", Write: func(w io.Writer, run *Run) error { return export.WriteAllocationTrees(w, run.Summary) }},
		{Name: "series", About: "CSV, one row per second of a load that was measured with --series", Write: func(w io.Writer, run *Run) error { return export.WriteSeries(w, run.Records) }},
		{Name: "hlog", About: "HdrHistogram log, one histogram per trial", Write: func(w io.Writer, run *Run) error { return export.WriteHistogramLog(w, run.Summary, run.Records) }},
	}
}

// FindFormat returns the format with this name, or an error that lists all names.
func FindFormat(name string) (Format, error) {
	all := Formats()
	i := slices.IndexFunc(all, func(f Format) bool { return f.Name == name })
	if i < 0 {
		names := lists.Map(all, func(f Format) string { return f.Name })
		return Format{}, fmt.Errorf("unknown export format %q: want one of %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// A csvColumn is a column with the unit in its title.
type csvColumn[Row any] struct {
	title string
	value func(Row) string
}

// WriteCSV prints one row per cell, in full precision. Unmeasured figures and
// figures without a valid trial are empty.
func WriteCSV(w io.Writer, run *Run) error {
	return writeRows(w, csvColumns(), lists.Map(table.SortedCells(run.Summary.Cells), func(c *matrix.Cell) *Cell { return new(newCell(c)) }))
}

func writeRows[Row any](w io.Writer, columns []csvColumn[Row], rows []Row) error {
	lines := [][]string{lists.Map(columns, func(c csvColumn[Row]) string { return c.title })}
	for _, row := range rows {
		lines = append(lines, lists.Map(columns, func(c csvColumn[Row]) string { return c.value(row) }))
	}
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

// csvColumns returns the columns that identify a cell, its counts, and the figures tagged `csv`.
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
		{"rate_rps", func(c *Cell) string { return formatPositive(c.Load.RatePerSecond) }},
		{"ramp_to_rps", func(c *Cell) string { return formatPositive(c.Load.RampTo) }},
		{"burst", func(c *Cell) string { return formatPositive(float64(c.Load.Burst)) }},
		{"goal", func(c *Cell) string { return c.Load.Goal }},
		{"in_flight_limit", func(c *Cell) string { return formatPositive(float64(c.Load.InFlightLimit)) }},
		{"trials", func(c *Cell) string { return strconv.Itoa(c.Trials) }},
		{"valid_trials", func(c *Cell) string { return strconv.Itoa(c.Valid) }},
		{"requests", func(c *Cell) string { return strconv.FormatInt(c.Requests, 10) }},
		{"errors", func(c *Cell) string { return strconv.FormatInt(c.Errors, 10) }},
	}
	return append(columns, csvFields(reflect.TypeFor[Cell](), "*", reflect.Value.Elem)...)
}

// csvFields returns the columns of the fields that are tagged `csv`. The tag of a struct is a
// pattern for the titles of its fields, with a star for the field's title. The function in returns
// the struct of a cell, or the zero Value if the cell has no struct.
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
			columns = append(columns, columnsWithInterval(title, csvNumber, func(c *Cell) *matrix.Figure {
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

// columnsWithInterval returns columns for a figure and the ends of its interval.
func columnsWithInterval[Row any](title string, show func(float64) string, of func(Row) *matrix.Figure) []csvColumn[Row] {
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

func formatPositive(value float64) string {
	if value <= 0 {
		return ""
	}
	return csvNumber(value)
}

// StudyTableFile returns the file name of a study's own table: the name in the scenario, then the
// minute in which the run began. Most studies have no own table.
func StudyTableFile(s *analysis.Summary) (name string, has bool) {
	file := s.Report.Table.File
	return file + "_" + s.Started.Format("20060102_1504") + ".csv", file != ""
}

// CheckStudyColumn returns an error if a study's table cannot have this column.
func CheckStudyColumn(name string) error {
	names := lists.Map(studyColumns(), func(c studyColumn) string { return c.title })
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("column %q: %s", name, spelling.Suggest(name, names))
}

// A studyRow is a cell, with ratios to the first stack's cell at the same point.
type studyRow struct {
	*Cell
	declared *scenario.Declarations
	// Ratios to the first stack's cell. They are nil for the first stack, and for cells that must not
	// be compared.
	throughput, mean *matrix.Figure
}

// WriteStudyTable prints one row per cell, with the study's columns, or all columns if it names
// none. Unmeasured figures are empty. Without a valid trial all figures of a cell are empty, except
// the outcomes of its requests.
func WriteStudyTable(w io.Writer, run *Run) error {
	columns := studyColumns()
	if asked := run.Summary.Report.Table.Columns; len(asked) > 0 {
		columns = slices.DeleteFunc(columns, func(c studyColumn) bool { return !slices.Contains(asked, c.title) })
		slices.SortFunc(columns, func(a, b studyColumn) int {
			return cmp.Compare(slices.Index(asked, a.title), slices.Index(asked, b.title))
		})
	}
	s := run.Summary
	first := map[string]string{} // first variant of each part
	var rows []studyRow
	for i := range s.Cells {
		c := newCell(&s.Cells[i])
		first[c.Part] = cmp.Or(first[c.Part], c.Variant)
		rows = append(rows, studyRow{
			Cell: &c, declared: &s.Declared,
			throughput: s.RatioTo(&c.Cell, first[c.Part], matrix.Throughput),
			mean:       s.RatioTo(&c.Cell, first[c.Part], matrix.Mean),
		})
	}
	return writeRows(w, columns, rows)
}

type studyColumn = csvColumn[studyRow]

func studyColumns() []studyColumn {
	text := func(title string, of func(*matrix.Cell) string) studyColumn {
		return studyColumn{title, func(r studyRow) string { return of(&r.Cell.Cell) }}
	}
	count := func(title string, of func(*matrix.Cell) int64) studyColumn {
		return text(title, func(c *matrix.Cell) string { return strconv.FormatInt(of(c), 10) })
	}
	columns := []studyColumn{
		text("scenario", func(c *matrix.Cell) string { return c.Part }),
		{"operation", func(r studyRow) string { return r.declared.Operation(r.Workload) }},
		text("stack", func(c *matrix.Cell) string { return c.Variant }),
		{"protocol", studyRow.protocol},
		text("load", table.DescribeLoad),
		count("users", func(c *matrix.Cell) int64 { return int64(cmp.Or(c.Load.Burst, c.Clients)) }),
		text("valid", func(c *matrix.Cell) string { return fmt.Sprintf("%d/%d", c.Valid, c.Trials) }),
		count("requests", func(c *matrix.Cell) int64 { return c.Survival.Requests }),
		count("succeeded", func(c *matrix.Cell) int64 { return c.Survival.Succeeded }),
		count("failed", func(c *matrix.Cell) int64 { return c.Survival.Requests - c.Survival.Succeeded }),
		text("error_rate", func(c *matrix.Cell) string {
			if c.Survival.Share == nil {
				return ""
			}
			return formatRounded(1 - *c.Survival.Share)
		}),
	}
	columns = append(columns, studyFigureColumns()...)
	columns = append(columns, text("limit", func(c *matrix.Cell) string { return limitNames[c.Bound] }))
	columns = append(columns, columnsWithInterval("throughput_ratio", formatRounded, func(r studyRow) *matrix.Figure { return r.throughput })...)
	return append(columns, columnsWithInterval("mean_ratio", formatRounded, func(r studyRow) *matrix.Figure { return r.mean })...)
}

// limitNames translates the limit of a cell into the words of a study's table.
var limitNames = map[matrix.Bound]string{matrix.ByServerCPU: "cpu", matrix.ByClientCPU: "cpu", matrix.ByWaiting: "waiting"}

func studyFigureColumns() []studyColumn {
	const (
		milli   = 1e-3 // microseconds to milliseconds
		mega    = 1e-6 // bytes to megabytes
		percent = 100
	)
	var columns []studyColumn
	for _, f := range []struct {
		title string
		unit  float64
		field string
	}{
		{"throughput_rps", 1, "Throughput"},
		{"mean_ms", milli, "Response.Mean"},
		{"p95_ms", milli, "Response.P95"},
		{"request_wire_bytes", 1, "Wire.Request.Total"},
		{"response_wire_bytes", 1, "Wire.Response.Total"},
		{"client_cpu_us", 1, "ClientCPU"},
		{"server_cpu_us", 1, "ServerCPU"},
		{"server_cpu_percent_of_core", percent, "Server.Cores"},
		{"server_rss_mb", mega, "Server.RSS"},
		{"server_peak_mb", mega, "Server.Peak"},
	} {
		columns = append(columns, studyColumn{f.title, func(r studyRow) string {
			figure := table.FigureAt(r.Cell, f.field)
			if figure == nil || !r.IsValid() {
				return ""
			}
			return formatRounded(figure.Value * f.unit)
		}})
	}
	return columns
}

func formatRounded(value float64) string {
	if !format.Finite(value) {
		return ""
	}
	return strconv.FormatFloat(value, 'g', 6, 64) // more digits than any figure has
}

// protocolNames translates negotiated protocols into the words of a study's table.
var protocolNames = map[string]string{"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3", "tcp-plain": "TCP", "tcp-calls": "TCP"}

// protocol returns the negotiated protocol, or for older records the protocol that the stack
// declares.
func (r studyRow) protocol() string {
	negotiated := r.Connections.Negotiated
	if !negotiated.Recorded {
		return r.declared.Protocols[r.Variant]
	}
	return cmp.Or(protocolNames[negotiated.Protocol], negotiated.Protocol)
}
