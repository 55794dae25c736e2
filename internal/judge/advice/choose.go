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
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Wish describes the use for which somebody must choose a variant. Zero fields are open.
type Wish struct {
	Size    scenario.Payload
	Callers int
	New     bool          // a new connection for each request
	Goal    scenario.Goal // that must be kept
}

// Choose returns the rule for choosing that the measurements support, with its evidence, or says
// that there is none.
func Choose(s *analysis.Summary, w Wish) []string {
	var fitting []*rank.Part
	for _, p := range rank.PartsOf(s) {
		if p.Searched() || len(p.Sizes) == 0 {
			continue
		}
		q := p.Only(func(c *matrix.Cell) bool { return c.Connections.PerRequest == w.New })
		if len(q.Variants) > 1 {
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
		if q := p.Around(record.Payload{RequestBytes: int(w.Size.Request), ResponseBytes: int(w.Size.Response)}, w.Callers); q != nil {
			return chooseFor(q, w)
		}
	}
	return []string{words.Cut(fmt.Sprintf("No advice: that lies beyond what was measured, %s.", words.ExtentOf(fitting[0])))}
}

func chooseFor(p *rank.Part, w Wish) []string {
	var lines []string
	if w.Goal != (scenario.Goal{}) {
		kept, line := keeping(p, w.Goal)
		lines = append(lines, line)
		if len(kept) == 0 {
			return append(lines, "No advice: no variant is sure to keep it; ask for more, or measure more repeats.")
		}
		p.Variants = kept
		if len(kept) == 1 {
			return append(lines, "Use "+kept[0]+": it alone is sure to keep it.")
		}
	}
	rules := rulesOf(p)
	if len(rules) == 0 {
		return append(lines, words.Cut("No advice: no difference of the mean is beyond doubt, "+words.ExtentOf(p)+"."))
	}
	lines = append(lines, rules...)
	for _, r := range rank.Ends(p.Contests(matrix.Mean, p.SizeEnds(), p.ClientEnds())) {
		lines = append(lines, byHowMuch(r)...)
	}
	return append(lines, words.Cut("Measured here, "+words.ExtentOf(p)+"; beyond that it is not known."))
}

// rulesOf says what to use with each number of clients, or nothing if no measurement decides.
func rulesOf(p *rank.Part) []string {
	const open = "any: no difference is beyond doubt"
	type rule struct {
		first, last int
		says        string
	}
	var rules []rule
	for _, n := range p.Clients {
		says := ruleByMean(p, n, open)
		if len(rules) > 0 && rules[len(rules)-1].says == says {
			rules[len(rules)-1].last = n
		} else {
			rules = append(rules, rule{n, n, says})
		}
	}
	if len(rules) == 1 && rules[0].says == open {
		return nil
	}
	return lists.Map(rules, func(r rule) string {
		callers := words.Clients(r.first)
		if r.last > r.first {
			callers = fmt.Sprintf("%d to %d clients", r.first, r.last)
		}
		return words.Cut(fmt.Sprintf("With %s use %s.", callers, r.says))
	})
}

// keeping returns the variants whose percentile certainly lies under the limit at every point.
func keeping(p *rank.Part, goal scenario.Goal) (kept []string, line string) {
	var perhaps, not []string
	limit := float64(time.Duration(goal.Limit)) / 1e3
	for _, variant := range p.Variants {
		sure, missed := true, false
		for _, size := range p.Sizes {
			for _, n := range p.Clients {
				figure := quantileOf(p.Cell(variant, rank.Point{Size: size, Clients: n}), goal.Percentile)
				sure = sure && figure != nil && figure.Interval != nil && figure.Interval.High < limit
				missed = missed || figure != nil && (figure.Interval == nil && figure.Value > limit || figure.Interval != nil && figure.Interval.Low > limit)
			}
		}
		switch {
		case missed:
			not = append(not, "not "+variant)
		case sure:
			kept = append(kept, variant)
		default:
			perhaps = append(perhaps, "perhaps "+variant)
		}
	}
	return kept, strings.Join(words.Fill(fmt.Sprintf("Keeps %s: ", goal), slices.Concat(kept, perhaps, not)), "")
}

// quantileOf returns nil if the percentile was not measured.
func quantileOf(c *matrix.Cell, percentile float64) *matrix.Figure {
	i := slices.IndexFunc(matrix.Quantiles, func(q matrix.Quantile) bool { return math.Abs(q.At*100-percentile) < 1e-9 })
	if c == nil || i < 0 {
		return nil
	}
	figure := matrix.Quantiles[i].Of(c.ResponseTimes())
	if math.IsNaN(figure.Value) {
		return nil
	}
	return figure
}
