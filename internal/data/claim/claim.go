// Package claim evaluates a finding of a study. The finding is an expression over the figures
// of the study's cells, such as
//
//	ratio("mean", "rest", "tcp", 64, 1)
//
// The value of an expression is one positive number: a ratio, or a place on an axis. It is
// evaluated once for each repeat of a run, so that it has as many values as the run has
// repeats, and an interval; and once without any figures, to learn which cells it needs.
// Published findings use figures that others measured, see [ReadCited].
//
// This package knows no stack and no scenario. It does not know how a figure is measured.
package claim

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// Least stands for the least size, or number of clients, that a part has.
const Least = -1

// A Cell names the cell that a figure belongs to.
type Cell struct {
	Part, Variant string
	Bytes         int // of a request's payload
	Clients       int
}

// Figures returns the figures that an expression uses.
type Figures interface {
	// Figure returns one of a cell's figures by its name in [Names], or NaN if it was not measured.
	Figure(name string, of Cell) float64
	// Sizes and Clients return the sizes and the numbers of clients of a variant in a part,
	// in ascending order: the sizes at the cell's clients, the clients at the cell's size.
	Sizes(of Cell) []int
	Clients(of Cell) []int
}

// Names describes each figure by its name.
var Names = map[string]string{
	"mean":            "the mean response time",
	"p50":             "the median response time",
	"p90":             "the response time of nine requests in ten",
	"p95":             "the response time of 95 in 100",
	"p99":             "the response time of 99 in 100",
	"tail":            "P99 over P50",
	"service":         "the mean time from sending, without the wait for a permit",
	"throughput":      "requests per second",
	"answered":        "the share of requests that were answered",
	"cpu":             "CPU time a request, of both ends",
	"client-cpu":      "CPU time a request of the client",
	"server-cpu":      "CPU time a request of the server",
	"server-cores":    "CPUs that the server uses",
	"client-user":     "the share of the client's CPU time that is its own and not the kernel's",
	"server-user":     "the share of the server's CPU time that is its own and not the kernel's",
	"client-switches": "how often the client's threads leave their CPUs a request",
	"server-switches": "how often the server's threads leave their CPUs a request",
	"client-faults":   "page faults a request of the client",
	"server-faults":   "page faults a request of the server",
	"client-gc":       "the share of the client's CPU time that its garbage collector takes",
	"server-gc":       "the share of the server's CPU time that its garbage collector takes",
	"client-assist":   "the share of the client's CPU time that goroutines spend helping the collector before they may allocate",
	"server-assist":   "the share of the server's CPU time that goroutines spend helping the collector before they may allocate",
	"client-run-wait": "how long one in a hundred of the client's goroutines waits for a CPU once it could run",
	"server-run-wait": "how long one in a hundred of the server's goroutines waits for a CPU once it could run",
	"server-memory":   "the most memory that the server has held of its own",
	"client-futex":    "futex calls of the client per request",
	"server-futex":    "futex calls of the server per request",
	"request-bytes":   "bytes that a request takes on the wire",
	"response-bytes":  "bytes that a response takes on the wire",
	"opened":          "connections opened in the window a request",
	"trips":           "the median response time in round trips of the link, which are twice its delay",
	"handshake":       "the median time of a connection's handshake",
	"connect-trips":   "the median time until a TCP connection is established, in round trips of the link",
	"handshake-trips": "the median time of a handshake of TLS or QUIC, in round trips of the link",
}

// FigureNames returns the names of the figures in order.
func FigureNames() []string { return slices.Sorted(maps.Keys(Names)) }

// NeedsSyscalls reports whether a figure is only known if system calls were counted.
func NeedsSyscalls(name string) bool { return strings.HasSuffix(name, "-futex") }

// An Expression is a checked expression.
type Expression struct {
	program *vm.Program
	usesIt  bool
}

// Parse checks an expression. In one that uses it, the name `it` stands for a variant.
func Parse(text string, usesIt bool) (*Expression, error) {
	program, err := compile(text, environment("", "", nil, usesIt))
	if err != nil {
		return nil, err
	}
	return &Expression{program, usesIt}, nil
}

// compile checks an expression over an environment. The expression must return a number.
func compile(text string, over map[string]any) (*vm.Program, error) {
	program, err := expr.Compile(text, expr.Env(over), expr.AsFloat64(), expr.DisableAllBuiltins(), expr.EnableBuiltin("min"), expr.EnableBuiltin("max"))
	if err != nil {
		return nil, firstLine(err)
	}
	return program, nil
}

// firstLine removes the expression that the error repeats after its reason.
func firstLine(err error) error {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(reason)
}

// A Value is the result of an expression. Number is NaN if there is none; Reason then says why, if a
// function knew. Missing says that figures were missing.
type Value struct {
	Number  float64
	Reason  string
	Missing bool
}

// Evaluate evaluates the expression over figures of a part. The expression may use the variant
// as `it`.
func (e *Expression) Evaluate(part, it string, from Figures) Value {
	scope := &scope{from: from}
	result, err := vm.Run(e.program, environment(part, it, scope, e.usesIt))
	number, _ := result.(float64)
	switch {
	case err != nil:
		return Value{math.NaN(), firstLine(err).Error(), true}
	case !(number > 0) || math.IsInf(number, 0):
		return Value{math.NaN(), scope.reason, scope.missing}
	}
	return Value{Number: number}
}

// Needs returns the figures that an expression asks for, each once, in its order. shape has the
// sizes and clients of a part; its figures do not matter.
func (e *Expression) Needs(part, it string, shape Figures) ([]Need, error) {
	asks := &asking{Figures: shape, seen: map[Need]bool{}}
	if _, err := vm.Run(e.program, environment(part, it, &scope{from: asks}, e.usesIt)); err != nil {
		return nil, firstLine(err)
	}
	return asks.all, nil
}

// A Need is a figure of a cell.
type Need struct {
	Figure string
	Cell   Cell
}

// asking notes the figures that an expression uses. It answers 1, so that no function stops early.
type asking struct {
	Figures
	seen map[Need]bool
	all  []Need
}

func (a *asking) Figure(name string, of Cell) float64 {
	a.Figures.Figure(name, of)
	if need := (Need{name, of}); !a.seen[need] {
		a.seen[need] = true
		a.all = append(a.all, need)
	}
	return 1
}
