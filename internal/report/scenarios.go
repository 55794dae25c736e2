package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/scenario"
)

// ScenariosFile is the name that the table of scenarios has beside a run of the
// users API: that of the minute in which the run began. Other runs have none.
func ScenariosFile(s *analysis.Summary) (name string, has bool) {
	return "benchmark_" + s.Started.Format("20060102_1504") + ".csv", s.IsUsersAPI()
}

// scenarioRow is a cell with the one of the first stack at the same point.
type scenarioRow struct {
	*analysis.Cell
	// The cell's figures over the first's; nil where it is the first, or where
	// they may not be compared.
	throughput, mean *analysis.Figure
}

// WriteScenarios prints a row a cell in the units of the users API's published
// study, with what the run says of each beside the part's first stack. What was
// not measured is empty, as are all figures of a cell without a valid trial,
// but for what became of its requests.
func WriteScenarios(w io.Writer, run *Run) error {
	table := csv.NewWriter(w)
	columns := scenarioColumns()
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.title
	}
	if err := table.Write(row); err != nil {
		return fmt.Errorf("report: writing the scenarios: %w", err)
	}
	for i := range run.Summary.Cells {
		r := newScenarioRow(run.Summary, &run.Summary.Cells[i])
		for i, c := range columns {
			row[i] = c.value(r)
		}
		if err := table.Write(row); err != nil {
			return fmt.Errorf("report: writing the scenarios: %w", err)
		}
	}
	table.Flush()
	if err := table.Error(); err != nil {
		return fmt.Errorf("report: writing the scenarios: %w", err)
	}
	return nil
}

func newScenarioRow(s *analysis.Summary, c *analysis.Cell) scenarioRow {
	r := scenarioRow{Cell: c}
	first := s.Cells[slices.IndexFunc(s.Cells, func(other analysis.Cell) bool { return other.Part == c.Part })].Variant
	r.throughput, r.mean = s.Against(c, first, analysis.Throughput), s.Against(c, first, analysis.Mean)
	return r
}

type scenarioColumn struct {
	title string
	value func(scenarioRow) string
}

func scenarioColumns() []scenarioColumn {
	text := func(title string, of func(*analysis.Cell) string) scenarioColumn {
		return scenarioColumn{title, func(r scenarioRow) string { return of(r.Cell) }}
	}
	count := func(title string, of func(*analysis.Cell) int64) scenarioColumn {
		return text(title, func(c *analysis.Cell) string { return strconv.FormatInt(of(c), 10) })
	}
	columns := []scenarioColumn{
		text("scenario", func(c *analysis.Cell) string { return c.Part }),
		text("operation", operation),
		text("stack", func(c *analysis.Cell) string { return c.Variant }),
		text("protocol", protocol),
		text("load", load),
		count("users", func(c *analysis.Cell) int64 { return int64(cmp.Or(c.Load.Burst, c.Clients)) }),
		text("valid", func(c *analysis.Cell) string { return fmt.Sprintf("%d/%d", c.Valid, c.Trials) }),
		count("requests", func(c *analysis.Cell) int64 { return c.Survival.Requests }),
		count("succeeded", func(c *analysis.Cell) int64 { return c.Survival.Succeeded }),
		count("failed", func(c *analysis.Cell) int64 { return c.Survival.Requests - c.Survival.Succeeded }),
		text("error_rate", func(c *analysis.Cell) string {
			if c.Survival.Share == nil {
				return ""
			}
			return rounded(1 - *c.Survival.Share)
		}),
	}
	columns = append(columns, scenarioFigures()...)
	columns = append(columns, text("limit", func(c *analysis.Cell) string { return limits[c.Bound] }))
	columns = append(columns, scenarioRatio("throughput_ratio", func(r scenarioRow) *analysis.Figure { return r.throughput })...)
	return append(columns, scenarioRatio("mean_ratio", func(r scenarioRow) *analysis.Figure { return r.mean })...)
}

// limits are in the study's terms: its question was whether the CPU was one.
var limits = map[analysis.Bound]string{analysis.ByServerCPU: "cpu", analysis.ByClientCPU: "cpu", analysis.ByWaiting: "waiting"}

func scenarioFigures() []scenarioColumn {
	const (
		milli   = 1e-3 // of a microsecond
		mega    = 1e-6 // of a byte
		percent = 100
	)
	wire := func(pick func(*analysis.Wire) *analysis.Figure) func(*analysis.Cell) *analysis.Figure {
		return func(c *analysis.Cell) *analysis.Figure {
			if c.Wire == nil {
				return nil
			}
			return pick(c.Wire)
		}
	}
	var columns []scenarioColumn
	for _, f := range []struct {
		title string
		unit  float64
		of    func(*analysis.Cell) *analysis.Figure
	}{
		{"throughput_rps", 1, func(c *analysis.Cell) *analysis.Figure { return &c.Throughput }},
		{"mean_ms", milli, func(c *analysis.Cell) *analysis.Figure { return &response(c).Mean }},
		{"p95_ms", milli, func(c *analysis.Cell) *analysis.Figure { return &response(c).P95 }},
		{"request_wire_bytes", 1, wire(func(w *analysis.Wire) *analysis.Figure { return &w.Request.Total })},
		{"response_wire_bytes", 1, wire(func(w *analysis.Wire) *analysis.Figure { return &w.Response.Total })},
		{"client_cpu_us", 1, func(c *analysis.Cell) *analysis.Figure { return c.ClientCPU }},
		{"server_cpu_us", 1, func(c *analysis.Cell) *analysis.Figure { return c.ServerCPU }},
		{"server_cpu_percent_of_core", percent, func(c *analysis.Cell) *analysis.Figure { return c.Server.Cores }},
		{"server_rss_mb", mega, func(c *analysis.Cell) *analysis.Figure { return c.Server.RSS }},
		{"server_peak_mb", mega, func(c *analysis.Cell) *analysis.Figure { return c.Server.Peak }},
	} {
		columns = append(columns, scenarioColumn{f.title, func(r scenarioRow) string {
			figure := f.of(r.Cell)
			if figure == nil || !r.IsValid() {
				return ""
			}
			return rounded(figure.Value * f.unit)
		}})
	}
	return columns
}

func scenarioRatio(title string, of func(scenarioRow) *analysis.Figure) []scenarioColumn {
	column := func(title string, pick func(*analysis.Figure) float64) scenarioColumn {
		return scenarioColumn{title, func(r scenarioRow) string {
			figure := of(r)
			if figure == nil {
				return ""
			}
			return rounded(pick(figure))
		}}
	}
	bound := func(pick func(*analysis.Interval) float64) func(*analysis.Figure) float64 {
		return func(f *analysis.Figure) float64 {
			if f.Interval == nil {
				return math.NaN()
			}
			return pick(f.Interval)
		}
	}
	return []scenarioColumn{
		column(title, func(f *analysis.Figure) float64 { return f.Value }),
		column(title+"_low", bound(func(i *analysis.Interval) float64 { return i.Low })),
		column(title+"_high", bound(func(i *analysis.Interval) float64 { return i.High })),
	}
}

// digits are more than any figure here is sure of.
const digits = 6

// rounded shows a figure, and nothing where there is none.
func rounded(value float64) string {
	if !finite(value) {
		return ""
	}
	return strconv.FormatFloat(value, 'g', digits, 64)
}

// usualOperation is what the users workload does where nothing is said.
const usualOperation = "get-user"

func operation(c *analysis.Cell) string {
	w, err := scenario.ParseWorkload(c.Workload)
	if err != nil {
		return c.Workload
	}
	op, _ := w.Get("op")
	mix, _ := w.Get("mix")
	return cmp.Or(mix, op, usualOperation)
}

// versions are the HTTP that a stack speaks, whatever its options: none of them
// goes over another one where that cannot be had.
var versions = map[string]string{
	"rest": "HTTP/1.1", "h1": "HTTP/1.1",
	"h2": "HTTP/2", "grpc": "HTTP/2", "fastgrpc": "HTTP/2", "connect": "HTTP/2",
	"h3": "HTTP/3", "grpc-h3": "HTTP/3",
	"tcp": "TCP",
}

func protocol(c *analysis.Cell) string {
	if c.Stack != "rest-json" {
		return versions[c.Stack]
	}
	v, err := scenario.ParseVariant(c.Variant)
	if err != nil {
		return ""
	}
	if version, _ := v.Get("http"); version == "2" {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}
