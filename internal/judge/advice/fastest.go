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

// metricSentences grades the best variant by each figure, and gives the figures at the first and the
// last point.
func metricSentences(p *rank.Part, metrics ...string) []string {
	if len(p.Variants) < 2 {
		return singleVariant(p)
	}
	var sentences []string
	for _, metric := range metrics {
		if texts := append(leadSentences(p, p.Leads(metric)), pointSentences(p, metric)...); len(texts) > 0 {
			sentences = append(sentences, strings.Join(texts, " "))
		} else if metric == matrix.P99 && slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool { return c.IsValid() && rank.MetricOf(metric, c) == nil }) {
			sentences = append(sentences, fmt.Sprintf("Not measured: P99, which needs %s requests per trial; measure longer.", units.Thousands(matrix.P99Requests)))
		}
	}
	return sentences
}

// pointSentences gives the best variant's figure, and its rivals', at the first and the last point.
func pointSentences(p *rank.Part, metric string) []string {
	return lists.Map(rank.FirstAndLast(p.RankingsWithRivals(metric, p.Sizes, p.Clients)), func(r rank.Ranking) string {
		c, value := p.Cell(r.Best, r.At), words.Micros(r.Value.Value)
		if metric == matrix.CPU {
			value = words.BothCPUs(c) + " (client + server)"
		}
		for _, s := range c.ResponseTimes().Stalls {
			if s.Percentile == metric {
				value += fmt.Sprintf(" (%d of %d trials stalled, for up to %s, and P99 of the other trials is %s)", len(s.Repeats), s.Trials, words.Micros(s.Longest), words.Micros(s.Without))
			}
		}
		items := words.FirstItems(lists.Map(r.Rivals, func(other rank.Rival) string { return words.RivalText(other.Variant, other) }), "%d more")
		return fmt.Sprintf("%s%s: %s %s; %s.", metricNames[metric].before, words.PointText(r.At), r.Best, value, strings.Join(items, ", "))
	})
}

// pointLines gives the best variant's mean, and its rivals', at the first and the last point, in short lines.
func pointLines(p *rank.Part) (lines []string) {
	for _, r := range rank.FirstAndLast(p.RankingsWithRivals(matrix.Mean, p.Sizes, p.Clients)) {
		over, names := words.SplitCommonPrefix(append([]string{r.Best}, lists.Map(r.Rivals, func(other rank.Rival) string { return other.Variant })...))
		items := make([]string, len(r.Rivals))
		for i, other := range r.Rivals {
			items[i] = words.RivalText(names[i+1], other)
		}
		lines = append(lines, words.FillLine(fmt.Sprintf("%s%s: %s %s; ", over, words.PointText(r.At), names[0], words.Micros(r.Value.Value)), items)...)
	}
	return lines
}

// timesLine writes the times and the rate of one cell.
func timesLine(of string, mean matrix.Figure, c *matrix.Cell) string {
	line := fmt.Sprintf("%s: mean %s", of, words.WithInterval(mean, words.Micros))
	if p99 := rank.MetricOf(matrix.P99, c); p99 != nil {
		line += ", P99 " + words.Micros(p99.Value)
	}
	return line + ", " + words.Rate(c.Throughput.Value) + "."
}

// singleVariant describes a part in which only one variant has valid trials.
func singleVariant(p *rank.Part) []string {
	if p.Cells[0].Kind().Alone {
		return partAnswers(p)
	}
	opening := "There is nothing to compare " + p.Variants[0] + " with."
	if slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool { return c.Variant != p.Variants[0] }) {
		opening = "Only " + p.Variants[0] + " has valid trials."
	}
	return []string{strings.Join(append([]string{opening}, singleVariantTimes(p)...), " ")}
}

// singleVariantTimes gives the times of a part's only variant, in its first and its last cell.
func singleVariantTimes(p *rank.Part) []string {
	if len(p.Variants) != 1 {
		return nil
	}
	return rank.FirstAndLast(lists.Map(rank.Filter(p.Cells, (*matrix.Cell).IsValid), func(c *matrix.Cell) string {
		return timesLine(c.Variant+", "+words.PointText(rank.Point{Size: c.Payload, Clients: c.Clients}), c.ResponseTimes().Mean, c)
	}))
}

// bestRates gives each variant's highest throughput, with the smallest and the largest messages. The
// rates may have different numbers of clients, so it compares intervals.
func bestRates(p *rank.Part) (lines []string) {
	if !p.IsClosed() || len(p.Clients) < 2 {
		return nil
	}
	for _, size := range p.SizeEnds() {
		peaks := p.PeakCells(size)
		if len(peaks) < 2 {
			continue
		}
		head := "Highest rate"
		if size != (record.Payload{}) {
			head += ", " + words.PayloadText(size)
		}
		if !rank.IsAbove(peaks[0].Throughput, peaks[1].Throughput) {
			head += ", not proven"
		}
		items := lists.Map(peaks, func(c *matrix.Cell) string {
			return fmt.Sprintf("%s %s with %s", c.Variant, words.Rate(c.Throughput.Value), words.Clients(c.Clients))
		})
		lines = append(lines, head+": "+strings.Join(words.FirstItems(items, "%d more"), ", ")+".")
	}
	return lines
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
			lines, leads := chooseFor(s, q, w)
			return words.CutLines(lines), leads
		}
	}
	return []string{fmt.Sprintf("No advice: the case is outside of the measured range, %s.", words.MeasuredRange(fitting[0]))}, nil
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
	lines = slices.Concat(lines, leadSentences(p, leads), pointLines(p), leadActions(s, p, leads))
	return append(lines, "Measured here, "+words.MeasuredRange(p)+"; other cases are unknown."), leads
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
