package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fastestSentences names the variant with the lowest mean response time, with few and with many
// clients.
func fastestSentences(p *rank.Part) []string {
	if len(p.Variants) < 2 {
		return singleVariant(p)
	}
	var sentences []string
	for _, n := range p.ClientEnds() {
		clauses := lists.Map(p.SizeGroups(matrix.Mean, n), func(group []rank.Ranking) string { return describeFastest(p, group) })
		sentences = append(sentences, words.Sentence(clauses, "With %s %s.", words.Clients(n))...)
	}
	return sentences
}

// describeFastest names the best variant at some sizes, with times for the first and last size.
func describeFastest(p *rank.Part, group []rank.Ranking) string {
	first := group[0]
	text := first.Best + " has the lowest mean"
	switch {
	case len(first.Rivals) == 0:
		text = "only " + first.Best + " has a valid figure"
	case first.IsSure():
		text = first.Best + " is the fastest"
	}
	text += words.SizesClause(p, group)
	if len(first.Rivals) > 0 {
		text += words.DoubtClause(first)
	}
	text += ": " + bestTimes(first, len(group) > 1)
	if len(group) > 1 {
		text += "; " + strings.TrimPrefix(bestTimes(group[len(group)-1], true), "a call of ")
	}
	return text
}

// bestTimes writes the best variant's time, and how many times longer other variants take.
func bestTimes(r rank.Ranking, withSize bool) string {
	text := "a call takes "
	if withSize {
		text = "a call of " + words.PayloadText(r.At.Size) + " takes "
	}
	text += words.Micros(r.Value.Value)
	for i, other := range r.Rivals[:min(len(r.Rivals), words.MaxShownRivals)] {
		text += ", " + other.Variant + " " + words.WithInterval(other.Times, units.Number)
		if i == 0 {
			text += " times as long"
		}
	}
	return text
}

// leadLines writes the best variant's time, and how many times longer other variants take.
func leadLines(r rank.Ranking) []string {
	over, names := words.SplitCommonPrefix(append([]string{r.Best}, lists.Map(r.Rivals, func(other rank.Rival) string { return other.Variant })...))
	items := make([]string, len(r.Rivals))
	for i, other := range r.Rivals {
		items[i] = names[i+1] + " " + words.FactorText(other.Times)
	}
	return words.FillLine(fmt.Sprintf("%s%s: %s %s; ", over, words.PointText(r.At), names[0], words.Micros(r.Value.Value)), items)
}

// timesLine writes the times and the rate of one cell.
func timesLine(of string, mean matrix.Figure, c *matrix.Cell) string {
	line := fmt.Sprintf("%s: mean %s", of, words.WithInterval(mean, words.Micros))
	if p99 := rank.MetricOf(matrix.P99, c); p99 != nil {
		line += ", P99 " + words.Micros(p99.Value)
	}
	return words.CutLine(line + ", " + words.Rate(c.Throughput.Value) + ".")
}

func singleVariant(p *rank.Part) []string {
	if p.Cells[0].Kind().Alone {
		return partAnswers(p)
	}
	var clauses []string
	for _, size := range p.SizeEnds() {
		for _, n := range p.ClientEnds() {
			if c := p.Cell(p.Variants[0], rank.Point{Size: size, Clients: n}); c != nil {
				clauses = append(clauses, fmt.Sprintf("%s with %s %s",
					words.PayloadText(size), words.Clients(n), words.WithInterval(c.ResponseTimes().Mean, words.Micros)))
			}
		}
	}
	opening := "There is nothing to compare " + p.Variants[0] + " with"
	if slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool { return c.Variant != p.Variants[0] }) {
		opening = "Only " + p.Variants[0] + " has valid trials"
	}
	return []string{fmt.Sprintf("%s; the mean time of a call: %s.", opening, strings.Join(clauses, "; "))}
}

// throughputSentence compares the highest throughput of each variant. The peaks may have different
// numbers of clients, so it compares intervals.
func throughputSentence(p *rank.Part) []string {
	if !p.IsClosed() || len(p.Clients) < 2 {
		return nil
	}
	var clauses []string
	for _, size := range p.SizeEnds() {
		peaks := p.PeakCells(size)
		if len(peaks) < 2 {
			continue
		}
		first, rest := peaks[0], peaks[1:]
		others := lists.Map(rest, func(c *matrix.Cell) string {
			return fmt.Sprintf("%s's %s with %d", c.Variant, words.Rate(c.Throughput.Value), c.Clients)
		})
		clause := fmt.Sprintf("%s%s's, %s with %s, against %s",
			words.SizeClause(size), first.Variant, words.WithInterval(first.Throughput, words.Rate), words.Clients(first.Clients), words.List(others))
		if !rank.IsAbove(first.Throughput, rest[0].Throughput) {
			clause += fmt.Sprintf(" (its lead over %s is not proven)", rest[0].Variant)
		}
		clauses = append(clauses, clause)
	}
	return words.Sentence(clauses, "The highest throughput is %s.")
}

// shortestTail names the variant with the lowest P99 with the most clients. It does not use
// P99/P50, which favours variants whose calls are all slow.
func shortestTail(p *rank.Part) []string {
	if len(p.Variants) < 2 {
		return nil
	}
	clauses := lists.Map(p.RankingsWithRivals(matrix.P99, p.SizeEnds(), []int{p.MostClients()}), func(lowest rank.Ranking) string {
		return words.SizeClause(lowest.At.Size) + describeTail(p, lowest)
	})
	tooFew := slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool {
		return c.IsValid() && c.Clients == p.MostClients() && c.Requests/int64(max(c.Valid, c.Survival.Trials)) < matrix.P99Requests
	})
	if len(clauses) == 0 && tooFew && !p.IsSearched() {
		return []string{fmt.Sprintf("The shortest tail with %s was not measured: P99 needs %s requests per trial, so measure longer.",
			words.Clients(p.MostClients()), units.Thousands(matrix.P99Requests))}
	}
	return words.Sentence(clauses, "The tail with %s: %s.", words.Clients(p.MostClients()))
}

func describeTail(p *rank.Part, lowest rank.Ranking) string {
	low := p.Cell(lowest.Best, lowest.At)
	steady := p.Steadiest(low, lowest.At)
	holds := "is lowest"
	if lowest.IsSure() && steady == low {
		holds = "is best"
	}
	text := fmt.Sprintf("%s %s with a P99 of %s, %s times its P50%s", lowest.Best, holds, words.WithInterval(lowest.Value, words.Micros), units.Number(low.P99OverP50.Value), words.DoubtClause(lowest))
	for _, s := range low.ResponseTimes().Stalls {
		if s.Percentile == matrix.P99 {
			text += fmt.Sprintf(" (%d of %d trials stalled, for up to %s, and P99 of the other trials is %s)", len(s.Repeats), s.Trials, words.Micros(s.Longest), words.Micros(s.Without))
		}
	}
	if steady == low {
		return text
	}
	return text + fmt.Sprintf(" (%s has the lowest P99/P50, %s, but its P50 is %s and its P99 is %s: steady, not short)",
		steady.Variant, units.Number(steady.P99OverP50.Value), words.Micros(steady.ResponseTimes().P50.Value), words.Micros(steady.ResponseTimes().P99.Value))
}

// choiceSentence grades the best variant by P99 and by CPU time. The answer grades the mean.
func choiceSentence(p *rank.Part) []string {
	if len(p.Variants) < 2 {
		return nil
	}
	var sentences []string
	for _, metric := range []string{matrix.P99, matrix.CPU} {
		if graded := leadSentences(p, p.Leads(metric)); len(graded) > 0 {
			sentences = append(sentences, strings.Join(graded, " "))
		}
	}
	return sentences
}

// A UseCase describes what somebody needs a variant for. Zero fields mean "any".
type UseCase struct {
	Size           scenario.Payload
	Callers        int
	NewConnections bool          // a new connection for each request
	Goal           scenario.Goal // goal that the chosen variant must keep
}

// Choose says which variant to use and why, or explains why the measurements do not decide. It also
// returns the evidence.
func Choose(s *analysis.Summary, w UseCase) ([]string, []rank.Lead) {
	var fitting []*rank.Part
	for _, p := range rank.PartsOf(s) {
		if p.IsSearched() || len(p.Sizes) == 0 {
			continue
		}
		q := p.FilterCells(func(c *matrix.Cell) bool { return c.Connections.PerRequest == w.NewConnections })
		if len(q.Variants) > 1 {
			fitting = append(fitting, q)
		}
	}
	if len(fitting) == 0 {
		kind := "kept connections"
		if w.NewConnections {
			kind = "a new connection per request"
		}
		return []string{"No advice: the run does not compare two variants with " + kind + "."}, nil
	}
	for _, p := range fitting {
		if q := p.AtNearestPoints(record.Payload{RequestBytes: int(w.Size.Request), ResponseBytes: int(w.Size.Response)}, w.Callers); q != nil {
			return chooseFor(s, q, w)
		}
	}
	return []string{words.CutLine(fmt.Sprintf("No advice: the case is outside of the measured range, %s.", words.MeasuredRange(fitting[0])))}, nil
}

func chooseFor(s *analysis.Summary, p *rank.Part, w UseCase) (lines []string, leads []rank.Lead) {
	if w.Goal != (scenario.Goal{}) {
		kept, line := keepingGoal(p, w.Goal)
		lines = append(lines, line)
		if len(kept) == 0 {
			return append(lines, "No advice: no variant is sure to keep the goal; relax it, or measure more repeats."), nil
		}
		p.Variants = kept
		if len(kept) == 1 {
			return append(lines, "Use "+kept[0]+": only it is sure to keep the goal."), nil
		}
	}
	leads = p.Leads(matrix.Mean)
	lines = slices.Concat(lines, leadSentences(p, leads))
	for _, r := range rank.FirstAndLast(p.RankingsWithRivals(matrix.Mean, p.SizeEnds(), p.ClientEnds())) {
		lines = append(lines, leadLines(r)...)
	}
	lines = append(lines, leadActions(s, p, leads)...)
	return append(lines, words.CutLine("Measured here, "+words.MeasuredRange(p)+"; other cases are unknown.")), leads
}

// keepingGoal returns the variants whose percentile is proven below the limit at every point.
func keepingGoal(p *rank.Part, goal scenario.Goal) (kept []string, line string) {
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
	return kept, strings.Join(words.FillLine(fmt.Sprintf("Keeps %s: ", goal), slices.Concat(kept, perhaps, not)), "")
}

// quantileOf returns a percentile of a cell, or nil if it was not measured.
func quantileOf(c *matrix.Cell, percentile float64) *matrix.Figure {
	i := slices.IndexFunc(matrix.Quantiles, func(q matrix.Quantile) bool { return math.Abs(q.At*100-percentile) < 1e-9 })
	if c == nil || i < 0 {
		return nil
	}
	figure := matrix.Quantiles[i].FigureIn(c.ResponseTimes())
	if math.IsNaN(figure.Value) {
		return nil
	}
	return figure
}
