package advice

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// nextStep asks for more measurements, or for a choice.
func nextStep(s *analysis.Summary) []string {
	parts := rank.PartsOf(s)
	if len(parts) == 0 {
		return nil
	}
	if s.Partial() {
		return []string{"Do: go on with wirelab run --resume."}
	}
	if line := withoutVerdict(s); line != "" {
		return []string{line}
	}
	switch {
	case s.IsSweep():
		return morePaths(s)
	case len(s.Claims) > 0:
		return openClaims(s)
	case s.Report.Cases:
		return nil
	}
	return chosen(rank.MainPart(parts))
}

// withoutVerdict asks for more trials, or for a quieter machine, where most cells have too
// few that are valid.
func withoutVerdict(s *analysis.Summary) string {
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
	case 2*planned > few && 2*s.Again.Spoiled >= s.Invalid:
		return fmt.Sprintf("Do: measure on a quieter machine: %d of %d cells have too few valid trials.", few, len(s.Cells))
	case 2*planned > few:
		return words.Cut(fmt.Sprintf("Do: see to what makes trials invalid (%s): %d of %d cells have too few.", worst(s), few, len(s.Cells)))
	}
	return fmt.Sprintf("Do: take %d repeats or more: %d of %d cells have too few trials for a verdict.", matrix.LeastTrials, few, len(s.Cells))
}

// worst names what makes most trials invalid.
func worst(s *analysis.Summary) string {
	if all := reasons(s, record.Invalid); len(all) > 0 {
		return all[0].name
	}
	return "failures"
}

// openClaims says how many repeats would decide at least half of the undecided claims.
func openClaims(s *analysis.Summary) []string {
	open, few := 0, 0
	var needed []int
	for _, c := range s.Claims {
		if c.Outcome == compare.Underpowered {
			open++
			if c.Pairs < matrix.LeastTrials {
				few++
			}
			if c.NeededPairs != nil {
				needed = append(needed, *c.NeededPairs)
			}
		}
	}
	if open == 0 {
		return nil
	}
	half := (open + 1) / 2
	switch {
	case few >= half:
		return []string{words.Cut(fmt.Sprintf("Do: %s: too few valid repeats for %d of %s.", howToGetMore(s), few, words.Count(open, "open claim")))}
	case len(needed) < half:
		return []string{fmt.Sprintf("Do: nothing: most of the %s lie on a border, which more repeats may not decide.", words.Count(open, "open claim"))}
	}
	slices.Sort(needed)
	return []string{fmt.Sprintf("Do: take about %s: that decides %d of the %s.", words.Count(needed[half-1], "repeat"), half, words.Count(open, "open claim"))}
}

// howToGetMore valid repeats.
func howToGetMore(s *analysis.Summary) string {
	switch {
	case s.Invalid == 0:
		return fmt.Sprintf("take %d repeats or more", matrix.LeastTrials)
	case 2*s.Again.Spoiled >= s.Invalid:
		return "measure on a quieter machine"
	}
	return fmt.Sprintf("see to what makes trials invalid (%s)", worst(s))
}

// morePaths names the variant that carries more than a connection that holds its callers back.
func morePaths(s *analysis.Summary) []string {
	var items []string
	for _, c := range s.Scalings {
		if d := c.Diagnosis; d.Bottleneck == curves.OnConnection {
			items = append(items, fmt.Sprintf("%s for %s, %s %s's", d.Better, c.Workload, words.Factor(*d.Gain), c.Variant))
		}
	}
	if len(items) == 0 {
		return []string{"Do: nothing: no connection holds its callers back."}
	}
	return words.Fill("Do: use ", items)
}

// chosen gives the rule for choosing by the mean, with the fewest and with the most clients.
func chosen(p *rank.Part) []string {
	if len(p.Variants) < 2 || p.Searched() || len(p.Sizes) == 0 {
		return nil
	}
	if !slices.ContainsFunc(p.Comparisons, rank.IsDecided) {
		return []string{"Do: choose by other merits: no difference is beyond doubt."}
	}
	var rules []string
	for _, n := range p.ClientEnds() {
		rules = append(rules, ruleByMean(p, n, "any"))
	}
	if len(rules) == 1 || rules[0] == rules[1] {
		return []string{words.Cut("Do: by the mean, choose " + rules[0] + ".")}
	}
	long := fmt.Sprintf("Do: by the mean, choose with %s %s; with %d %s.", words.Clients(p.Clients[0]), rules[0], p.MostClients(), rules[1])
	if short := fmt.Sprintf("Do: by the mean, choose with %s %s.", words.Clients(p.MostClients()), rules[1]); len([]rune(long)) > words.LongestLine {
		return []string{words.Cut(short)}
	}
	return []string{long}
}

// trust counts the valid trials, and names what most of the others met.
func trust(s *analysis.Summary) []string {
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
	return words.Fill(line+"; with care: ", care[:min(len(care), words.ShownItems)])
}
