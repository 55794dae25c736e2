package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Wish is what somebody must choose a variant for. What is zero is left open.
type Wish struct {
	Size    scenario.Payload
	Callers int
	New     bool          // a new connection for each request
	Goal    scenario.Goal // that must be kept
}

// Choose is the rule for choosing that the run's measurements support, with its evidence, in
// a few short lines. It says so where they support none.
func Choose(s *analysis.Summary, w Wish) []string {
	var fitting []*part
	for _, p := range partsOf(s) {
		if p.searched() || len(p.sizes) == 0 {
			continue
		}
		q := p.only(func(c *matrix.Cell) bool { return c.Connections.PerRequest == w.New })
		if len(q.variants) > 1 {
			fitting = append(fitting, q)
		}
	}
	if len(fitting) == 0 {
		kind := "kept connections"
		if w.New {
			kind = "a new connection a request"
		}
		return []string{"No advice: the run has no two variants side by side with " + kind + "."}
	}
	for _, p := range fitting {
		if q := p.around(w); q != nil {
			return q.chooseFor(w)
		}
	}
	return []string{cut(fmt.Sprintf("No advice: that lies beyond what was measured, %s.", fitting[0].extent()))}
}

// only is the part with some of its cells alone.
func (p *part) only(keep func(*matrix.Cell) bool) *part {
	q := &part{name: p.name, comparisons: p.comparisons}
	for _, c := range p.cells {
		if !keep(c) {
			continue
		}
		q.cells = append(q.cells, c)
		if c.IsValid() {
			q.variants, q.sizes, q.clients = withNew(q.variants, c.Variant), withNew(q.sizes, c.Payload), withNew(q.clients, c.Clients)
		}
	}
	slices.SortFunc(q.sizes, record.Payload.Compare)
	slices.Sort(q.clients)
	return q
}

// around is the part at the sizes and the concurrencies that were measured nearest to those
// wished for, below and above; nil where these lie outside.
func (p *part) around(w Wish) *part {
	sizes, clients := p.sizes, p.clients
	if size := (record.Payload{RequestBytes: int(w.Size.Request), ResponseBytes: int(w.Size.Response)}); size != (record.Payload{}) {
		sizes = bracket(sizes, func(other record.Payload) int { return other.Compare(size) })
		if len(sizes) == 2 && (sizes[0].RequestBytes > size.RequestBytes || sizes[0].ResponseBytes > size.ResponseBytes || sizes[1].RequestBytes < size.RequestBytes || sizes[1].ResponseBytes < size.ResponseBytes) {
			return nil
		}
	}
	if w.Callers > 0 {
		clients = bracket(clients, func(other int) int { return other - w.Callers })
	}
	if len(sizes) == 0 || len(clients) == 0 {
		return nil
	}
	q := *p
	q.sizes, q.clients = sizes, clients
	return &q
}

// bracket is the value that is meant, or those next to it below and above; none if it lies
// outside. The values ascend.
func bracket[T any](values []T, compare func(T) int) []T {
	i := slices.IndexFunc(values, func(v T) bool { return compare(v) >= 0 })
	switch {
	case i < 0, i == 0 && compare(values[0]) > 0:
		return nil
	case compare(values[i]) == 0:
		return values[i : i+1]
	}
	return values[i-1 : i+1]
}

func (p *part) extent() string {
	sizes, clients := p.sizeEnds(), p.clientEnds()
	text := payloadText(sizes[0])
	if len(sizes) > 1 {
		text += " to " + payloadText(sizes[1])
	}
	text += fmt.Sprintf(" with %d", clients[0])
	if len(clients) > 1 {
		text += fmt.Sprintf(" to %d", clients[1])
	}
	return text + " clients"
}

func (p *part) chooseFor(w Wish) []string {
	var lines []string
	if w.Goal != (scenario.Goal{}) {
		kept, line := p.keeping(w.Goal)
		lines = append(lines, line)
		if len(kept) == 0 {
			return append(lines, "No advice: no variant is sure to keep it; ask for more, or measure more repeats.")
		}
		p.variants = kept
		if len(kept) == 1 {
			return append(lines, "Use "+kept[0]+": it alone is sure to keep it.")
		}
	}
	rules := p.rules()
	if len(rules) == 0 {
		return append(lines, cut("No advice: no difference of the mean is beyond doubt, "+p.extent()+"."))
	}
	lines = append(lines, rules...)
	var evidence []ranking
	for _, size := range p.sizeEnds() {
		for _, n := range p.clientEnds() {
			if r, ok := p.rank(matrix.Mean, point{size, n}); ok && len(r.rivals) > 0 {
				evidence = append(evidence, r)
			}
		}
	}
	for _, r := range ends(evidence) {
		lines = append(lines, byHowMuch(r)...)
	}
	return append(lines, cut("Measured here, "+p.extent()+"; beyond that it is not known."))
}

// rules say what to use with so many clients, those with the same rule together. They are empty
// where none speaks for anything.
func (p *part) rules() []string {
	type rule struct {
		first, last int
		says        string
	}
	var rules []rule
	decided := false
	for _, n := range p.clients {
		says := "any: no difference is beyond doubt"
		if ranges := p.ranges(matrix.Mean, n); !p.allCandidates(ranges) {
			says, decided = p.bySize(ranges), true
		}
		if len(rules) > 0 && rules[len(rules)-1].says == says {
			rules[len(rules)-1].last = n
			continue
		}
		rules = append(rules, rule{n, n, says})
	}
	if !decided {
		return nil
	}
	return lists.Map(rules, func(r rule) string {
		callers := clients(r.first)
		if r.last > r.first {
			callers = fmt.Sprintf("%d to %d clients", r.first, r.last)
		}
		return cut(fmt.Sprintf("With %s use %s.", callers, r.says))
	})
}

// keeping are the variants whose percentile lies under the limit at every point, beyond doubt.
func (p *part) keeping(goal scenario.Goal) (kept []string, line string) {
	var perhaps, not []string
	limit := float64(time.Duration(goal.Limit)) / 1e3
	for _, variant := range p.variants {
		sure, missed := true, false
		for _, size := range p.sizes {
			for _, n := range p.clients {
				figure := quantileOf(p.cell(variant, point{size, n}), goal.Percentile)
				sure = sure && figure != nil && figure.Interval != nil && figure.Interval.High < limit
				missed = missed || figure != nil && (figure.Interval == nil && figure.Value > limit || figure.Interval != nil && figure.Interval.Low > limit)
			}
		}
		switch {
		case missed:
			not = append(not, variant)
		case sure:
			kept = append(kept, variant)
		default:
			perhaps = append(perhaps, variant)
		}
	}
	var items []string
	for _, group := range []struct {
		names []string
		what  string
	}{{kept, ""}, {perhaps, "perhaps "}, {not, "not "}} {
		for _, name := range group.names {
			items = append(items, group.what+name)
		}
	}
	return kept, strings.Join(filled(fmt.Sprintf("Keeps %s: ", goal), items), "")
}

// quantileOf is nil where the percentile was not measured.
func quantileOf(c *matrix.Cell, percentile float64) *matrix.Figure {
	if c == nil {
		return nil
	}
	for _, q := range matrix.Quantiles {
		if math.Abs(q.At*100-percentile) < 1e-9 {
			figure := q.Of(c.ResponseTimes())
			if math.IsNaN(figure.Value) {
				return nil
			}
			return figure
		}
	}
	return nil
}
