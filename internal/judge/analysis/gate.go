package analysis

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Gate is a change that must not be: `p99 > +10%`, `throughput < -5%`.
type Gate struct {
	Text   string
	Metric string
	Above  bool    // the change must not be above the limit; else not below it
	Limit  float64 // of the ratio of after to before: 1.1 for +10%
}

var gateForm = regexp.MustCompile(`^\s*([a-z0-9./]+)\s*([<>])\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*%\s*$`)

// ParseGate reads a gate.
func ParseGate(text string) (Gate, error) {
	parts := gateForm.FindStringSubmatch(text)
	if parts == nil {
		return Gate{}, fmt.Errorf("%q is no condition: want FIGURE > +N%% or FIGURE < -N%%, as in 'p99 > +10%%'", text)
	}
	metric := parts[1]
	if of := findLimitable(metric); of != nil && slices.Contains(of.names, Throughput) {
		metric = Throughput // rps is another name of it
	}
	if !slices.Contains(DiffMetrics, metric) {
		return Gate{}, fmt.Errorf("%q in %q is not compared: want one of %s", parts[1], text, strings.Join(DiffMetrics, ", "))
	}
	percent, err := strconv.ParseFloat(parts[3], 64)
	if err != nil || percent <= -100 {
		return Gate{}, fmt.Errorf("%s%% in %q cannot be: a figure falls by less than 100%%", parts[3], text)
	}
	return Gate{Text: strings.TrimSpace(text), Metric: metric, Above: parts[2] == ">", Limit: 1 + percent/100}, nil
}

// GateOutcome is what a difference is to a gate.
type GateOutcome string

// The outcomes. Breached is only what is beyond doubt: the whole interval lies beyond the
// limit, and the difference is real.
const (
	Kept     GateOutcome = "kept"
	Breached GateOutcome = "breached"
	Open     GateOutcome = "open" // the figure lies beyond the limit, and may by chance
	// Unjudged is what has no figure to judge. It is never a pass.
	Unjudged GateOutcome = "unjudged"
)

// Judge judges a difference of the gate's metric.
func (g Gate) Judge(d Difference) GateOutcome {
	isBeyond := func(ratio float64) bool { return beyond(ratio, g.Limit, g.Above) }
	switch i := d.Ratio.Interval; {
	case !isBeyond(d.Ratio.Value):
		return Kept
	case i != nil && isBeyond(i.Low) && isBeyond(i.High) && d.isReal():
		return Breached
	}
	return Open
}

func (d Difference) isReal() bool { return d.Verdict != Undecided && d.Verdict != Equivalent }
