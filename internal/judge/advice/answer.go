package advice

import (
	"cmp"
	"fmt"
	"slices"

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
		return words.CutLines(foreignAnswer(s))
	}
	if len(s.Cells) > 0 && s.Cells[0].Kind().Alone {
		lines := append(words.CutLines(slices.Concat(serviceAnswers(s), mostFailures(s), fleetLine(s))), LoadRemarks(s)...)
		return lines[:min(len(lines), words.MaxLines)]
	}
	if len(s.Levers) > 0 && len(s.Claims) == 0 {
		return Levers(nil, s)
	}
	if d := analysis.NewVersionDiff(s); d != nil {
		return words.CutLines(slices.Concat(versionAnswer(s, d), mostFailures(s), fleetLine(s), trustLine(s)))
	}
	last := slices.Concat(nextStep(s), fleetLine(s), trustLine(s), reasonLine(s))
	lines := slices.Concat(rejudgedCount(s), claimCount(s), studyLever(s), findings(s))
	lines = slices.Insert(lines, min(1, len(lines)), missedGoal(s)...) // the finding is first, and then its limits
	return words.CutLines(append(lines[:min(len(lines), words.MaxLines-len(last))], last...))
}

// reasonLine gives the first sentence of the explanation, if there were probes.
func reasonLine(s *analysis.Summary) []string { return whyLine(probeExplanation(s)) }

func whyLine(sentences []string) []string {
	if len(sentences) == 0 {
		return nil
	}
	return []string{"Why: " + sentences[0]}
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
		pairs := caseLines(s)
		first := min(1, len(pairs))
		return slices.Concat(pairs[:first], shareLines(s), burstLines(s), sustainedLine(s), pairs[first:])
	}
	main := rank.MainPart(parts)
	var links []string
	points := len(main.Sizes) * len(main.Clients)
	if points == 1 {
		links = fastestOverLinks(s)
	}
	if len(s.Claims) > 0 && points < 2 {
		return slices.Concat(stepLines(s), links, linkLines(s)) // a study that only tests claims gets no other lines
	}
	return slices.Concat(links, stepLines(s), reconnectionLines(parts), gainOfKeeping(s), searchLines(s), burstLines(s), sustainedLine(s), directionRatios(parts), comparisonLines(main), shareLines(s), crossoverLines(s), singleVariantTimes(main))
}

// comparisonLines says which variant is best, with the figures at the first and the last point, and
// the highest rates with the smallest messages.
func comparisonLines(p *rank.Part) []string {
	if p.IsSearched() {
		return nil
	}
	rates := bestRates(p)
	return slices.Concat(leadSentences(p, p.Leads(matrix.Mean)), pointLines(p), rates[:min(1, len(rates))])
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
		how := cmp.Or(mainTrouble(s).do, fmt.Sprintf("take %d repeats or more", matrix.LeastTrials))
		return []string{fmt.Sprintf("Do: %s: too few valid repeats for %d of %s.", how, few, words.Count(open, "open claim"))}
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
