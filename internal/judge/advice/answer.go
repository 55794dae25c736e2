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
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Answer sums up a run in a few short lines: the findings with their grade, one thing to do, how far
// to trust the findings, and the reason for a difference if probes measured it.
func Answer(s *analysis.Summary) []string {
	if len(s.Foreign) > 0 {
		return foreignAnswer(s)
	}
	if len(s.Cells) > 0 && s.Cells[0].Kind().Alone {
		if disturbed := disturbedFigures(s); disturbed != nil {
			return slices.Concat(serviceAnswers(s), serviceFailures(s), fleetLine(s), disturbed)
		}
		return slices.Concat(untrustedFigures(s), serviceAnswers(s), serviceFailures(s), fleetLine(s), trustLine(s))
	}
	last := slices.Concat(nextStep(s), fleetLine(s), trustLine(s), reasonLine(s))
	lines := slices.Concat(rejudgedCount(s), undecidedCount(s), claimCount(s), findings(s))
	return append(lines[:min(len(lines), words.MaxLines-len(last))], last...)
}

// reasonLine gives the first sentence of the explanation, if there were probes.
func reasonLine(s *analysis.Summary) []string {
	if why := probeExplanation(s); len(why) > 0 {
		return []string{"Why: " + why[0]}
	}
	return nil
}

// findings returns the findings for this kind of scenario, the most important first.
func findings(s *analysis.Summary) []string {
	parts := rank.PartsOf(s)
	switch {
	case len(parts) == 0:
		return nil
	case s.IsSweep():
		return bestInFlight(s)
	case s.Report.Cases && len(parts) > 1:
		pairs := lists.Map(casePairs(s), caseLine)
		first := min(1, len(pairs))
		return slices.Concat(pairs[:first], shareLines(s), burstLines(s), sustainedLine(s), pairs[first:])
	}
	main := rank.MainPart(parts)
	if len(s.Claims) > 0 && len(main.Sizes)*len(main.Clients) < 2 {
		return append(stepLines(s), linkLines(s)...) // a study that only tests claims gets no other lines
	}
	return slices.Concat(fastestOverEach(s, main, parts), stepLines(s), lifecycleLines(s, parts), searchLines(s), burstLines(s), sustainedLine(s), directionRatios(parts), comparisonLines(main), shareLines(s), crossoverLines(s), singleVariantTimes(main))
}

// comparisonLines says which variant is best, and adds the best variant's lead at the first and the
// last point.
func comparisonLines(p *rank.Part) []string {
	if p.IsSearched() {
		return nil
	}
	lines := leadSentences(p, p.Leads(matrix.Mean))
	for _, r := range rank.FirstAndLast(p.RankingsWithRivals(matrix.Mean, p.Sizes, p.Clients)) {
		lines = append(lines, leadLines(r)...)
	}
	return append(lines, bestRates(p)...)
}

// bestRates gives each variant's highest throughput, with the smallest messages.
func bestRates(p *rank.Part) []string {
	if !p.IsClosed() || len(p.Clients) < 2 {
		return nil
	}
	peaks := p.PeakCells(p.Sizes[0])
	if len(peaks) < 2 {
		return nil
	}
	head := "best rate"
	if p.Sizes[0] != (record.Payload{}) {
		head += ", " + words.PayloadText(p.Sizes[0])
	}
	over, names := words.SplitCommonPrefix(lists.Map(peaks, func(c *matrix.Cell) string { return c.Variant }))
	items := make([]string, len(peaks))
	for i, c := range peaks {
		items[i] = fmt.Sprintf("%s %s (%s)", names[i], words.Rate(c.Throughput.Value), words.Clients(c.Clients))
	}
	return words.FillLine(over+head+": ", items)
}

func singleVariantTimes(p *rank.Part) []string {
	if len(p.Variants) != 1 {
		return nil
	}
	return rank.FirstAndLast(lists.Map(rank.Filter(p.Cells, (*matrix.Cell).IsValid), func(c *matrix.Cell) string {
		return timesLine(c.Variant+", "+words.PointText(rank.Point{Size: c.Payload, Clients: c.Clients}), c.ResponseTimes().Mean, c)
	}))
}

// directionRatios compares large answers to small requests with small answers to large requests.
func directionRatios(parts []*rank.Part) []string {
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
				lines = append(lines, words.FillLine(fmt.Sprintf("%s over %s, %s: ", words.PayloadText(size), words.PayloadText(back), words.Clients(n)), items)...)
			}
		}
	}
	return lines
}

// nextStep suggests more measurements, or a choice.
func nextStep(s *analysis.Summary) []string {
	parts := rank.PartsOf(s)
	switch {
	case len(parts) == 0:
		return nil
	case s.IsPartial() && s.Status == record.Running: // a killed run stays Running
		return []string{fmt.Sprintf("Do: wait for the other %s; if the run was stopped, continue it with wirelab run --resume.", words.Count(s.Planned-s.Done, "trial"))}
	case s.IsPartial():
		return []string{"Do: continue with wirelab run --resume."}
	}
	main, asked := rank.MainPart(parts), tooFewTrialsAdvice(s)
	leads := rank.MainLeads(s)
	switch {
	case len(leads) > 0 && len(s.Claims) == 0:
		return leadActions(s, main, leads)
	case asked != "":
		return []string{asked}
	case s.IsSweep():
		return connectionAdvice(s)
	case len(s.Claims) > 0:
		return openClaimsAdvice(s)
	}
	return nil
}

// openClaimsAdvice says how many repeats would decide at least half of the undecided claims.
func openClaimsAdvice(s *analysis.Summary) []string {
	open, few := 0, 0
	var needed []int
	for _, c := range s.Claims {
		if c.Outcome != compare.Underpowered {
			continue
		}
		open++
		if c.Pairs < matrix.LeastTrials {
			few++
		}
		if c.NeededPairs != nil {
			needed = append(needed, *c.NeededPairs)
		}
	}
	half := (open + 1) / 2
	switch {
	case open == 0:
		return nil
	case few >= half:
		how := remedy(s)
		if s.Invalid == 0 {
			how = fmt.Sprintf("take %d repeats or more", matrix.LeastTrials)
		}
		return []string{words.CutLine(fmt.Sprintf("Do: %s: too few valid repeats for %d of %s.", how, few, words.Count(open, "open claim")))}
	case len(needed) < half:
		return []string{fmt.Sprintf("Do: nothing, because most of the %s are so near a limit that repeats may not decide them.", words.Count(open, "open claim"))}
	}
	slices.Sort(needed)
	return []string{fmt.Sprintf("Do: take about %s: that decides %d of the %s.", words.Count(needed[half-1], "repeat"), half, words.Count(open, "open claim"))}
}

// connectionAdvice names a better variant with more connections, where one connection is the limit.
func connectionAdvice(s *analysis.Summary) []string {
	var items []string
	for _, c := range s.Scalings {
		if d := c.Diagnosis; d.Bottleneck == curves.OnConnection {
			items = append(items, fmt.Sprintf("%s for %s, %s the rate of %s", d.Better, c.Workload, words.FactorText(*d.Gain), c.Variant))
		}
	}
	if len(items) == 0 {
		return []string{"Do: nothing, because no connection makes its callers wait."}
	}
	return words.FillLine("Do: use ", items)
}
