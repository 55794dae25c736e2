package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/scenario"
)

// cases is the advice on a study of many small cases, of which no single one is
// the main thing.
func cases(s *analysis.Summary) []string {
	return slices.Concat(caseVerdicts(s), caseLimits(s), shares(s), bursts(s), sustained(s))
}

// tally is how one variant does against the first, over all cases.
type tally struct {
	first, other string
	of           map[analysis.Verdict]int // of the other; undecided ones too
	once         int                      // with too few trials for a verdict
	all          int
	least, most  *analysis.Comparison
}

// caseVerdicts counts by mean response time, which every load has.
func caseVerdicts(s *analysis.Summary) []string {
	var tallies []*tally
	for i := range s.Comparisons {
		c := &s.Comparisons[i]
		if c.Metric != analysis.Mean || sharesOut(s, c.Part) {
			continue
		}
		at := slices.IndexFunc(tallies, func(t *tally) bool { return t.first == c.A && t.other == c.B })
		if at < 0 {
			at = len(tallies)
			tallies = append(tallies, &tally{first: c.A, other: c.B, of: map[analysis.Verdict]int{}})
		}
		tallies[at].add(c)
	}
	slices.SortStableFunc(tallies, func(a, b *tally) int { return cmp.Compare(b.all, a.all) })
	var sentences []string
	for _, t := range tallies[:min(len(tallies), shownRivals)] {
		sentences = append(sentences, t.sentence())
	}
	return sentences
}

// sharesOut tells whether a part is there to share a difference out, and is not
// one of the cases.
func sharesOut(s *analysis.Summary, part string) bool {
	return slices.ContainsFunc(s.Shares, func(d analysis.Shares) bool { return d.Part == part })
}

// add counts a comparison, whose verdict speaks of the first.
func (t *tally) add(c *analysis.Comparison) {
	t.all++
	if c.Ratio.Interval == nil {
		t.once++
	} else {
		t.of[opposite(c.Verdict)]++
	}
	if t.least == nil || c.Ratio.Value > t.least.Ratio.Value {
		t.least = c
	}
	if t.most == nil || c.Ratio.Value < t.most.Ratio.Value {
		t.most = c
	}
}

func (t *tally) sentence() string {
	var texts []string
	for _, v := range []struct {
		verdict analysis.Verdict
		text    string
	}{
		{analysis.Slower, "slower than " + t.first}, {analysis.Faster, "faster"}, {analysis.Equivalent, "equal within 5 %"}, {analysis.Undecided, "undecided"},
	} {
		if n := t.of[v.verdict]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s in %d", v.text, n))
		}
	}
	verdicts := t.other + " is " + list(texts)
	switch {
	case len(texts) == 0:
		verdicts = fmt.Sprintf("%s against %s was measured too seldom for a verdict", t.other, t.first)
	case t.once > 0:
		verdicts += fmt.Sprintf(" (%d were measured too seldom for a verdict)", t.once)
	}
	return fmt.Sprintf("Of %d scenarios, by mean response time %s; it takes %s as long as %s in %s, and %s in %s.", t.all, verdicts,
		times(t.least.Ratio.Inverse()), t.first, caseName(t.least), times(t.most.Ratio.Inverse()), caseName(t.most))
}

func caseName(c *analysis.Comparison) string {
	return fmt.Sprintf("%s with %s", c.Part, clients(c.Clients))
}

// caseLimits says over all closed loops whether the CPU was the limit, or what
// calls wait for: a throughput that is the callers over a sleep is no wire's.
func caseLimits(s *analysis.Summary) []string {
	cells := cellsUnder(s, "closed", func(c *analysis.Cell) bool { return c.IsValid() && !sharesOut(s, c.Part) })
	if len(cells) == 0 {
		return nil
	}
	by := map[analysis.Bound][]*analysis.Cell{}
	for _, c := range cells {
		by[c.Bound] = append(by[c.Bound], c)
	}
	var clauses []string
	if waiting := by[analysis.ByWaiting]; len(waiting) > 0 {
		least, longest := math.Inf(1), 0.0
		for _, c := range waiting {
			least, longest = min(least, latencies(c).Mean.Value), max(longest, latencies(c).Mean.Value)
		}
		clauses = append(clauses, fmt.Sprintf("%s in %d: throughput there is the users over the %s to %s that a call waits, not what the wire can carry",
			waitedFor(s, waiting), len(waiting), micros(least), micros(longest)))
	}
	for _, end := range []struct {
		bound analysis.Bound
		text  string
	}{{analysis.ByServerCPU, "the server's CPU"}, {analysis.ByClientCPU, "the client's CPU"}} {
		if busy := by[end.bound]; len(busy) > 0 {
			clauses = append(clauses, fmt.Sprintf("%s in %d (%s)", end.text, len(busy), partsOf(busy)))
		}
	}
	if unsure := by[analysis.Unbound]; len(unsure) > 0 {
		clauses = append(clauses, fmt.Sprintf("neither plainly in %d (%s)", len(unsure), partsOf(unsure)))
	}
	return []string{fmt.Sprintf("What limits the %d closed loops is %s.", len(cells), strings.Join(clauses, "; "))}
}

// partsOf names some of the cells by variant, part and clients.
func partsOf(cells []*analysis.Cell) string {
	var texts []string
	for _, c := range cells[:min(len(cells), shownCells)] {
		texts = append(texts, fmt.Sprintf("%s %s with %s", c.Variant, c.Part, clients(c.Clients)))
	}
	if more := len(cells) - shownCells; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return list(texts)
}

// waitedFor is the simulated work where all of the cells' handlers have some.
func waitedFor(s *analysis.Summary, cells []*analysis.Cell) string {
	for _, c := range cells {
		if !s.Declared.Workload(c.Workload).Has(scenario.SimulatedWorkRole) {
			return "waiting"
		}
	}
	return "the simulated work"
}
