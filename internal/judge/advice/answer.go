package advice

import (
	"fmt"
	"slices"
	"unicode/utf8"

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

// Answer sums up a run in a few short lines: the findings, one thing to do, and how far to trust
// the findings.
func Answer(s *analysis.Summary) []string {
	if len(s.Foreign) > 0 {
		return foreignAnswer(s)
	}
	if len(s.Cells) > 0 && s.Cells[0].Kind().Alone {
		return slices.Concat(untrustedFigures(s), serviceAnswers(s), serviceFailures(s), fleetLine(s), trustLine(s))
	}
	var lines []string
	if s.IsPartial() {
		lines = []string{fmt.Sprintf("Partial: %d of %d trials were done.", s.Done, s.Planned)}
	}
	last := slices.Concat(nextStep(s), fleetLine(s), trustLine(s))
	lines = slices.Concat(lines, rejudgedCount(s), undecidedCount(s), claimCount(s), findings(s))
	return append(lines[:min(len(lines), words.MaxLines-len(last))], last...)
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

// comparisonLines counts the points that each variant wins. It adds the best variant's lead at the
// first and the last point.
func comparisonLines(p *rank.Part) []string {
	if p.IsSearched() {
		return nil
	}
	all := p.RankingsWithRivals(matrix.Mean, p.Sizes, p.Clients)
	if len(all) == 0 {
		return nil
	}
	lines := []string{winsLine(all)}
	for _, r := range rank.FirstAndLast(all) {
		lines = append(lines, leadLines(r)...)
	}
	return append(lines, bestRates(p)...)
}

// winsLine counts the points where each variant is fastest, and points without a proven winner.
func winsLine(all []rank.Ranking) string {
	wins, lowest := map[string]int{}, map[string]int{}
	ties, open, tooFew := 0, 0, 0
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
		return words.FillLine("Lowest mean, not proven: ", words.CountedLeads(lowest, len(all), "point"))[0]
	}
	head, items := "Proven fastest: ", words.CountedLeads(wins, len(all), "point")
	if len(wins) == 0 {
		head = fmt.Sprintf("No winner is proven at %s: ", words.Count(len(all), "point")) // every point is undecided or a tie
	}
	for _, other := range []struct {
		n    int
		text string
	}{{ties, "equal within 5 %"}, {open, "undecided"}, {tooFew, "too few trials"}} {
		if other.n > 0 {
			items = append(items, fmt.Sprintf("%s at %d", other.text, other.n))
		}
	}
	return words.FillLine(head, items)[0]
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
	parts, asked := rank.PartsOf(s), tooFewTrialsAdvice(s)
	switch {
	case len(parts) == 0:
		return nil
	case s.IsPartial():
		return []string{"Do: continue with wirelab run --resume."}
	case asked != "":
		return []string{asked}
	case s.IsSweep():
		return connectionAdvice(s)
	case len(s.Claims) > 0:
		return openClaimsAdvice(s)
	case s.Report.Cases:
		return nil
	}
	return choiceAdvice(rank.MainPart(parts))
}

// tooFewTrialsAdvice suggests more trials or a quieter machine if most cells have too few valid
// trials.
func tooFewTrialsAdvice(s *analysis.Summary) string {
	few, planned := 0, 0
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Valid < matrix.LeastTrials {
			few++
			if c.Trials >= matrix.LeastTrials {
				planned++
			}
		}
	}
	switch {
	case 2*few <= len(s.Cells):
		return ""
	case 2*planned > few && 2*s.Spoiled >= s.Invalid:
		return fmt.Sprintf("Do: measure on a quieter machine: %d of %d cells have too few valid trials.", few, len(s.Cells))
	case 2*planned > few:
		return words.CutLine(fmt.Sprintf("Do: fix the cause of invalid trials (%s): %d of %d cells have too few valid trials.", commonestInvalidCheck(s), few, len(s.Cells)))
	}
	return fmt.Sprintf("Do: take %d repeats or more: %d of %d cells have too few trials for a verdict.", matrix.LeastTrials, few, len(s.Cells))
}

func commonestInvalidCheck(s *analysis.Summary) string {
	if all := reasons(s, record.Invalid); len(all) > 0 {
		return all[0].name
	}
	return "failures"
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
		how := fmt.Sprintf("fix the cause of invalid trials (%s)", commonestInvalidCheck(s))
		switch {
		case s.Invalid == 0:
			how = fmt.Sprintf("take %d repeats or more", matrix.LeastTrials)
		case 2*s.Spoiled >= s.Invalid:
			how = "measure on a quieter machine"
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

// choiceAdvice names the variants with the best mean, for the fewest and the most clients.
func choiceAdvice(p *rank.Part) []string {
	if len(p.Variants) < 2 || p.IsSearched() || len(p.Sizes) == 0 {
		return nil
	}
	if !slices.ContainsFunc(p.Comparisons, rank.IsDecided) {
		return []string{"Do: choose by other merits: no difference is proven."}
	}
	rules := lists.Map(p.ClientEnds(), func(n int) string { return ruleByMean(p, n, "not decided") })
	if !slices.ContainsFunc(rules, func(rule string) bool { return rule != "not decided" }) {
		return []string{"Do: measure more: no variant is proven best. Add --until verdict, or close other programs."}
	}
	if len(rules) == 1 || rules[0] == rules[1] {
		return []string{words.CutLine("Do: choose " + rules[0] + " (best mean response time).")}
	}
	line := fmt.Sprintf("Do: with %s choose %s; with %d %s (best mean).", words.Clients(p.Clients[0]), rules[0], p.MostClients(), rules[1])
	if utf8.RuneCountInString(line) > words.MaxLineLength {
		line = fmt.Sprintf("Do: with %s choose %s (best mean).", words.Clients(p.MostClients()), rules[1])
	}
	return []string{words.CutLine(line)}
}

// trustLine counts the valid trials, and names the main reason why others are invalid.
func trustLine(s *analysis.Summary) []string {
	if s.Done == 0 || len(s.Cells) == 0 {
		return nil
	}
	valid := s.Done - s.Invalid - s.Failed
	line := fmt.Sprintf("Trust: %d of %d trials valid", valid, s.Done)
	if against := reasons(s, record.Invalid); len(against) > 0 {
		line += fmt.Sprintf(" (%d not: %s)", s.Done-valid, against[0].name)
	}
	care := lists.Map(reasons(s, record.Warning), func(r reason) string { return fmt.Sprintf("%s in %d", r.name, r.trials) })
	if len(care) == 0 {
		return []string{line + "."}
	}
	return words.FillLine(line+"; warnings: ", care[:min(len(care), words.MaxShownItems)])
}
