// Package claim evaluates the findings of a study. A finding is an expression over the figures of
// the study's cells, such as
//
// ratio("mean", "rest", "tcp", 64, 1)
//
// The value of an expression is one positive number: a ratio, or a place on an axis. The
// expression is evaluated once per repeat of a run, and the repeats' values give an interval. It
// is also evaluated once without figures, to list the cells that it needs. Published findings use
// figures of other people, see [ReadPublishedTable].
//
// This package knows no stack and no scenario. It does not know how a figure is measured.
package claim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// Least stands for a part's smallest size, or for its smallest number of clients.
const Least = -1

// A Cell identifies the cell whose figure an expression uses.
type Cell struct {
	Part, Variant string
	Bytes         int // payload size of a request
	Clients       int
}

// Figures provides the figures that an expression uses.
type Figures interface {
	// Figure returns a figure of the cell, or NaN if it was not measured. [FigureDescriptions]
	// lists the names.
	Figure(name string, of Cell) float64
	// Sizes returns a part's sizes for the cell's variant and number of clients, in ascending
	// order. Clients returns a part's numbers of clients for the cell's variant and size, in
	// ascending order.
	Sizes(of Cell) []int
	Clients(of Cell) []int
}

// An Explainer is a Figures that knows why a figure is NaN.
type Explainer interface {
	// WhyMissing returns a clause, or "" if nothing was measured.
	WhyMissing(name string, of Cell) string
}

// FigureDescriptions maps each figure's name to its description.
var FigureDescriptions = map[string]string{
	"mean":            "the mean response time",
	"p50":             "the median response time",
	"p90":             "the 90th percentile of the response time",
	"p95":             "the 95th percentile of the response time",
	"p99":             "the 99th percentile of the response time",
	"tail":            "P99 divided by P50",
	"service":         "the mean time from the actual send to the answer",
	"throughput":      "requests per second",
	"answered":        "the share of requests that were answered",
	"cpu":             "CPU time per request, of both ends",
	"client-cpu":      "the client's CPU time per request",
	"server-cpu":      "the server's CPU time per request",
	"server-cores":    "CPUs that the server uses",
	"client-user":     "the share of the client's CPU time outside the kernel",
	"server-user":     "the share of the server's CPU time outside the kernel",
	"client-switches": "the client's context switches per request",
	"server-switches": "the server's context switches per request",
	"client-faults":   "the client's page faults per request",
	"server-faults":   "the server's page faults per request",
	"client-gc":       "the share of the client's CPU time that its garbage collector takes",
	"server-gc":       "the share of the server's CPU time that its garbage collector takes",
	"client-assist":   "the share of the client's CPU time that goroutines spend helping the collector before they may allocate",
	"server-assist":   "the share of the server's CPU time that goroutines spend helping the collector before they may allocate",
	"client-run-wait": "the 99th percentile of the time that the client's runnable goroutines wait for a CPU",
	"server-run-wait": "the 99th percentile of the time that the server's runnable goroutines wait for a CPU",
	"server-memory":   "the server's peak memory, without the pages of files",
	"client-futex":    "futex calls of the client per request",
	"server-futex":    "futex calls of the server per request",
	"request-bytes":   "bytes that a request takes on the wire",
	"response-bytes":  "bytes that a response takes on the wire",
	"opened":          "connections opened in the window, per request",
	"connections":     "connections opened in the window",
	"busy":            "the share of its CPUs that the busier end uses",
	"trips":           "the median response time in round trips of the link (one is twice the link's delay)",
	"handshake":       "the median time of a connection's handshake",
	"connect-trips":   "the median time until a TCP connection is established, in round trips of the link",
	"handshake-trips": "the median time of a handshake of TLS or QUIC, in round trips of the link",
}

// FigureNames returns the names of all figures, sorted.
func FigureNames() []string { return slices.Sorted(maps.Keys(FigureDescriptions)) }

// NeedsSyscalls reports whether the figure can be measured only by counting system calls.
func NeedsSyscalls(name string) bool { return strings.HasSuffix(name, "-futex") }

// NeedsP99 reports whether the figure can be measured only with enough calls for a P99.
func NeedsP99(name string) bool { return name == "p99" || name == "tail" }

// An Expression is an expression that Parse has checked.
type Expression struct{ program *vm.Program }

// Parse checks an expression.
func Parse(text string) (*Expression, error) {
	program, err := compile(text, environment("", nil))
	if err != nil {
		return nil, err
	}
	return &Expression{program}, nil
}

// compile checks an expression that may use the names in over. The expression must return a number.
func compile(text string, over map[string]any) (*vm.Program, error) {
	program, err := expr.Compile(text, expr.Env(over), expr.AsFloat64(), expr.DisableAllBuiltins(), expr.EnableBuiltin("min"), expr.EnableBuiltin("max"))
	if err != nil {
		return nil, firstLine(err)
	}
	return program, nil
}

// firstLine returns the first line of an error, because the other lines repeat the expression.
func firstLine(err error) error {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(reason)
}

// A Value is the result of an expression. Number is NaN if there is no result. Then Reason may say
// why, Missing reports whether figures were missing, and Refused whether a missing figure was
// measured, but is not usable.
type Value struct {
	Number           float64
	Reason           string
	Missing, Refused bool
}

// Evaluate evaluates the expression over figures of a part.
func (e *Expression) Evaluate(part string, from Figures) Value {
	scope := &evaluation{from: from}
	result, err := vm.Run(e.program, environment(part, scope))
	number, _ := result.(float64)
	switch {
	case err != nil:
		return Value{Number: math.NaN(), Reason: firstLine(err).Error(), Missing: true}
	case !(number > 0) || math.IsInf(number, 0):
		return Value{math.NaN(), scope.reason, scope.missing, scope.refused}
	}
	return Value{Number: number}
}

// Needs lists the figures that an expression uses, each once, in the order of first use. shape
// provides the sizes and clients of a part; its figures are ignored.
func (e *Expression) Needs(part string, shape Figures) ([]Need, error) {
	asks := &figureCollector{Figures: shape, seen: map[Need]bool{}}
	if _, err := vm.Run(e.program, environment(part, &evaluation{from: asks})); err != nil {
		return nil, firstLine(err)
	}
	return asks.all, nil
}

// A Need is a figure of a cell that an expression needs.
type Need struct {
	Figure string
	Cell   Cell
}

// A figureCollector notes the figures that an expression uses. It returns 1 for each figure, so
// that no function stops early.
type figureCollector struct {
	Figures
	seen map[Need]bool
	all  []Need
}

func (a *figureCollector) Figure(name string, of Cell) float64 {
	a.Figures.Figure(name, of)
	if need := (Need{name, of}); !a.seen[need] {
		a.seen[need] = true
		a.all = append(a.all, need)
	}
	return 1
}

// A PublishedTable holds the figures of a published study. Each row has these columns:
//
//	table,stack,mode,size_bytes,concurrency,metric,value,unit,note
type PublishedTable struct{ rows []publishedRow }

type publishedRow struct {
	table, stack, metric string
	others               []string // the columns mode, size_bytes, concurrency and note
	value                string   // a text, because some values are ranges such as 1-48
}

const maxPublishedRows = 100_000

// ReadPublishedTable reads a published table from a CSV file.
func ReadPublishedTable(from io.Reader) (*PublishedTable, error) {
	table := csv.NewReader(from)
	titles, err := table.Read()
	if err != nil {
		return nil, err
	}
	place := map[string]int{}
	for i, title := range titles {
		place[title] = i
	}
	for _, title := range []string{"table", "stack", "mode", "size_bytes", "concurrency", "metric", "value", "note"} {
		if _, has := place[title]; !has {
			return nil, fmt.Errorf("the first line has no column %q, only %s", title, strings.Join(titles, ", "))
		}
	}
	c := &PublishedTable{}
	for {
		row, err := table.Read()
		if err == io.EOF {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		if len(c.rows) == maxPublishedRows {
			return nil, fmt.Errorf("the table has more than %d rows, which is the limit", maxPublishedRows)
		}
		of := func(title string) string { return row[place[title]] }
		c.rows = append(c.rows, publishedRow{of("table"), of("stack"), of("metric"), []string{of("mode"), of("size_bytes"), of("concurrency"), of("note")}, of("value")})
	}
}

// Evaluate evaluates an expression over the table, such as
//
//	cited("latency", "rest", "mean", 64, 10) / cited("latency", "tcp", "mean", 64, 10)
//
// The first three arguments are the table, the stack and the metric. Mode, size, clients and note
// may follow, if they are needed to identify the row. inferred reports whether the note of a cited
// row begins with "inferred": the study does not state the figure itself.
func (c *PublishedTable) Evaluate(text string) (value float64, inferred bool, err error) {
	environment := map[string]any{"cited": func(table, stack, metric string, others ...any) (float64, error) {
		row, value, err := c.figure(table, stack, metric, others...)
		inferred = inferred || err == nil && strings.HasPrefix(row.note(), "inferred")
		return value, err
	}}
	program, err := compile(text, environment)
	if err != nil {
		return 0, false, err
	}
	result, err := vm.Run(program, environment)
	if err != nil {
		return 0, false, firstLine(err)
	}
	return result.(float64), inferred, nil
}

func (c *PublishedTable) figure(table, stack, metric string, others ...any) (publishedRow, float64, error) {
	var found []publishedRow
	for _, row := range c.rows {
		if row.table == table && row.stack == stack && row.metric == metric && row.has(others) {
			found = append(found, row)
		}
	}
	if len(found) != 1 {
		return publishedRow{}, 0, fmt.Errorf("found %d published figures for %s of %s in %s %v: want one", len(found), metric, stack, table, others)
	}
	value, err := strconv.ParseFloat(found[0].value, 64)
	if err != nil {
		return publishedRow{}, 0, fmt.Errorf("the published figure %s of %s in %s is %q, which is not a number", metric, stack, table, found[0].value)
	}
	return found[0], value, nil
}

func (r *publishedRow) note() string { return r.others[len(r.others)-1] }

func (r publishedRow) has(others []any) bool {
	for _, other := range others {
		if !slices.Contains(r.others, fmt.Sprint(other)) {
			return false
		}
	}
	return true
}
