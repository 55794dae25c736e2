package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// StudyTableFile returns the file name of a study's own table beside the run: what
// the study calls it, and the minute in which the run began. Most have none.
func StudyTableFile(s *analysis.Summary) (name string, has bool) {
	file := s.Report.Table.File
	return file + "_" + s.Started.Format("20060102_1504") + ".csv", file != ""
}

// CheckStudyColumn says why a study's table cannot have a column.
func CheckStudyColumn(name string) error {
	var names []string
	for _, c := range studyColumns() {
		names = append(names, c.title)
	}
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("column %q: %s", name, spelling.Suggest(name, names))
}

// A studyRow is a cell, compared with the first stack's cell at the same point.
type studyRow struct {
	*Cell
	declared *scenario.Declarations
	// The cell's figures over the first's; nil where it is the first, or where
	// they may not be compared.
	throughput, mean *matrix.Figure
}

// WriteStudyTable prints one row per cell, with the columns that the study asks for, or else with
// all columns. Figures that were not measured are empty. So are all figures of a cell without a
// valid trial, except the outcomes of its requests.
func WriteStudyTable(w io.Writer, run *Run) error {
	columns := studyColumns()
	if asked := run.Summary.Report.Table.Columns; len(asked) > 0 {
		columns = slices.DeleteFunc(columns, func(c studyColumn) bool { return !slices.Contains(asked, c.title) })
		slices.SortFunc(columns, func(a, b studyColumn) int {
			return cmp.Compare(slices.Index(asked, a.title), slices.Index(asked, b.title))
		})
	}
	s := run.Summary
	first := map[string]string{} // variant of each part
	var rows []studyRow
	for i := range s.Cells {
		c := newCell(&s.Cells[i])
		first[c.Part] = cmp.Or(first[c.Part], c.Variant)
		rows = append(rows, studyRow{
			Cell: &c, declared: &s.Declared,
			throughput: s.Against(&c.Cell, first[c.Part], matrix.Throughput),
			mean:       s.Against(&c.Cell, first[c.Part], matrix.Mean),
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
			return rounded(1 - *c.Survival.Share)
		}),
	}
	columns = append(columns, studyFigures()...)
	columns = append(columns, text("limit", func(c *matrix.Cell) string { return limits[c.Bound] }))
	columns = append(columns, bounded("throughput_ratio", rounded, func(r studyRow) *matrix.Figure { return r.throughput })...)
	return append(columns, bounded("mean_ratio", rounded, func(r studyRow) *matrix.Figure { return r.mean })...)
}

// limits are in the study's terms: its question was whether the CPU was one.
var limits = map[matrix.Bound]string{matrix.ByServerCPU: "cpu", matrix.ByClientCPU: "cpu", matrix.ByWaiting: "waiting"}

func studyFigures() []studyColumn {
	const (
		milli   = 1e-3 // of a microsecond
		mega    = 1e-6 // of a byte
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
			return rounded(figure.Value * f.unit)
		}})
	}
	return columns
}

// digits is more than the precision of any figure here.
const digits = 6

// rounded shows a figure, and nothing where there is none.
func rounded(value float64) string {
	if !format.Finite(value) {
		return ""
	}
	return strconv.FormatFloat(value, 'g', digits, 64)
}

// versions names the negotiated protocols as the studies do.
var versions = map[string]string{"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3", "tcp-plain": "TCP", "tcp-calls": "TCP"}

// protocol returns the negotiated protocol; in older records, which lack it, the one that
// the stack declares.
func (r studyRow) protocol() string {
	negotiated := r.Connections.Negotiated
	if !negotiated.Recorded {
		return r.declared.Protocols[r.Variant]
	}
	return cmp.Or(versions[negotiated.Protocol], negotiated.Protocol)
}
