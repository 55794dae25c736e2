package advice

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Answer sums up a run in a few short lines: what was found, the one thing to do, and how far
// to trust it. Everything else is in the sentences of Advise.
func Answer(s *analysis.Summary) []string {
	if len(s.Foreign) > 0 {
		return foreignAnswer(s)
	}
	if len(s.Cells) > 0 && s.Cells[0].Kind().Alone {
		return slices.Concat(refusal(s), served(s), setbacks(s), fleet(s), trust(s))
	}
	last := slices.Concat(nextStep(s), fleet(s), trust(s))
	lines := slices.Concat(isPartial(s), judgedAnew(s), stillOpen(s), claimCount(s), found(s))
	return append(lines[:min(len(lines), words.MostLines-len(last))], last...)
}

// found answers the question of a scenario of this kind, the most important first.
func found(s *analysis.Summary) []string {
	parts := rank.PartsOf(s)
	switch {
	case len(parts) == 0:
		return nil
	case s.IsSweep():
		return bestInFlight(s)
	case s.Report.Cases && len(parts) > 1:
		first, others := casesCounted(s)
		return slices.Concat(first, shareLines(s), burstLines(s), sustainedLine(s), others)
	}
	main := rank.MainPart(parts)
	if len(s.Claims) > 0 && len(main.Sizes)*len(main.Clients) < 2 {
		return append(stepLines(s), linkLines(s)...) // each claim has a line, and nothing else was asked
	}
	return slices.Concat(fastestOverEach(s, main, parts), stepLines(s), lifecycleLines(s, parts), searchLines(s), burstLines(s), sustainedLine(s), directions(parts), compared(main), shareLines(s), crossoverLines(s), alone(main))
}

func isPartial(s *analysis.Summary) []string {
	if !s.Partial() {
		return nil
	}
	return []string{fmt.Sprintf("Partial: %d of %d trials were done.", s.Done, s.Planned)}
}

// compared says who is fastest at how many points, and by how much at the ends.
func compared(p *rank.Part) []string {
	if len(p.Variants) < 2 || len(p.Sizes) == 0 || p.Searched() {
		return nil
	}
	var all []rank.Ranking
	for _, size := range p.Sizes {
		for _, n := range p.Clients {
			if r, ok := p.Rank(matrix.Mean, rank.Point{Size: size, Clients: n}); ok && len(r.Rivals) > 0 {
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	lines := []string{whoLeads(all)}
	low, high := all[0], all[len(all)-1]
	lines = append(lines, byHowMuch(low)...)
	if high.At != low.At {
		lines = append(lines, byHowMuch(high)...)
	}
	return append(lines, bestRate(p)...)
}

// whoLeads counts the points at which a variant is fastest, beyond doubt or not.
func whoLeads(all []rank.Ranking) string {
	wins, ties, open, tooFew := map[string]int{}, 0, 0, 0
	lowest := map[string]int{}
	for _, r := range all {
		lowest[r.Best]++
		switch {
		case r.TooFew:
			tooFew++
		case r.IsSure():
			wins[r.Best]++
		case len(r.Unsure) == 0:
			ties++
		default:
			open++
		}
	}
	if tooFew == len(all) {
		return words.Fill("Lowest mean, without a verdict: ", words.Counted(lowest, len(all), "point"))[0]
	}
	head, items := "Fastest beyond doubt: ", words.Counted(wins, len(all), "point")
	if len(wins) == 0 {
		head = fmt.Sprintf("None of %s is fastest beyond doubt: ", words.Count(len(all), "point")) // each is undecided, or a tie
	}
	for _, other := range []struct {
		n    int
		text string
	}{{ties, "equal within 5 %"}, {open, "undecided"}, {tooFew, "too few trials"}} {
		if other.n > 0 {
			items = append(items, fmt.Sprintf("%s at %d", other.text, other.n))
		}
	}
	return words.Fill(head, items)[0]
}

// byHowMuch gives the best variant's time, and how many times as long the others take.
func byHowMuch(r rank.Ranking) []string {
	over, names := words.Brief(append([]string{r.Best}, lists.Map(r.Rivals, func(other rank.Rival) string { return other.Variant })...))
	items := make([]string, len(r.Rivals))
	for i, other := range r.Rivals {
		items[i] = names[i+1] + " " + words.Factor(other.Times)
	}
	return words.Fill(fmt.Sprintf("%s%s: %s %s; ", over, words.Where(r.At), names[0], words.Micros(r.Value.Value)), items)
}

// bestRate gives each variant at its best concurrency, with the smallest messages.
func bestRate(p *rank.Part) []string {
	if !p.Closed() || len(p.Clients) < 2 {
		return nil
	}
	peaks := p.Peaks(p.Sizes[0])
	if len(peaks) < 2 {
		return nil
	}
	head := "best rate: "
	if p.Sizes[0] != (record.Payload{}) {
		head = "best rate, " + words.PayloadText(p.Sizes[0]) + ": "
	}
	over, names := words.Brief(lists.Map(peaks, func(c *matrix.Cell) string { return c.Variant }))
	items := make([]string, len(peaks))
	for i, c := range peaks {
		items[i] = fmt.Sprintf("%s %s (%s)", names[i], words.Rate(c.Throughput.Value), words.Clients(c.Clients))
	}
	return words.Fill(over+head, items)
}

// alone describes a variant that has no rival.
func alone(p *rank.Part) []string {
	if len(p.Variants) != 1 {
		return nil
	}
	var lines []string
	for _, c := range p.Cells {
		if !c.IsValid() {
			continue
		}
		times := c.ResponseTimes()
		line := fmt.Sprintf("%s, %s: %s in the mean", c.Variant, words.Where(rank.Point{Size: c.Payload, Clients: c.Clients}), words.Between(times.Mean, words.Micros))
		if p99 := rank.MetricOf(matrix.P99, c); p99 != nil {
			line += ", P99 " + words.Micros(p99.Value)
		}
		lines = append(lines, words.Cut(line+", "+words.Rate(c.Throughput.Value)+"."))
	}
	return rank.Ends(lines)
}

// directions hold messages that are large one way against those that are large the other way,
// with the fewest and with the most clients.
func directions(parts []*rank.Part) []string {
	var lines []string
	for _, p := range parts {
		for _, size := range p.Sizes {
			back := record.Payload{RequestBytes: size.ResponseBytes, ResponseBytes: size.RequestBytes}
			if size.RequestBytes >= size.ResponseBytes || !slices.Contains(p.Sizes, back) {
				continue
			}
			for _, n := range p.ClientEnds() {
				var items []string
				for _, variant := range p.Variants {
					up, down := p.Cell(variant, rank.Point{Size: back, Clients: n}), p.Cell(variant, rank.Point{Size: size, Clients: n})
					if up != nil && down != nil {
						items = append(items, fmt.Sprintf("%s %s×", variant, units.Number(down.ResponseTimes().Mean.Value/up.ResponseTimes().Mean.Value)))
					}
				}
				lines = append(lines, words.Fill(fmt.Sprintf("%s over %s, %s: ", words.PayloadText(size), words.PayloadText(back), words.Clients(n)), items)...)
			}
		}
	}
	return lines
}
