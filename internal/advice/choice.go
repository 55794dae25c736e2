package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// choice is the rule for choosing that the measurements support: with the fewest
// and with the most clients, the fewest ranges of sizes with a variant that no
// measurement speaks against.
func choice(p *part) []string {
	if len(p.variants) < 2 {
		return nil
	}
	if !p.repeated() {
		return []string{fmt.Sprintf("There are too few trials of each cell of %s to choose by: what differs may be the machine. Three repeats give verdicts.", p.name)}
	}
	var rules, clauses []string
	open := true
	for _, n := range p.clientEnds() {
		ranges := p.ranges(analysis.Mean, n)
		rule := "nothing speaks for one over the others"
		if !p.allCandidates(ranges) {
			rule, open = p.bySize(ranges), false
		}
		rules = append(rules, rule)
		clauses = append(clauses, "with "+clients(n)+" "+rule)
	}
	if len(rules) == 2 && rules[0] == rules[1] {
		clauses = []string{fmt.Sprintf("%s, with %s as with %d", rules[0], clients(p.clients[0]), p.mostClients())}
	}
	tails := p.ranges(analysis.P99, p.mostClients())
	if open && p.allCandidates(tails) {
		return []string{fmt.Sprintf("Nothing measured here speaks for one of %s over the others: choose by other merits.", list(p.variants))}
	}
	sentence := "To choose: " + strings.Join(clauses, "; ")
	if p.allCandidates(tails) {
		sentence += "; by P99 they cannot be told apart there"
	} else {
		sentence += fmt.Sprintf("; where P99 with %s matters, %s", clients(p.mostClients()), p.bySize(tails))
	}
	return []string{sentence + "."}
}

// sizeRange is sizes that follow each other and have candidates in common.
type sizeRange struct {
	sizes      []int
	candidates []string
}

func (p *part) ranges(metric string, n int) []sizeRange {
	var all []sizeRange
	for _, bytes := range p.sizes {
		r, ok := p.rank(metric, point{bytes, n})
		if !ok || len(r.rivals) == 0 {
			continue
		}
		candidates := r.candidates()
		if len(all) > 0 {
			last := &all[len(all)-1]
			common := slices.DeleteFunc(slices.Clone(last.candidates), func(v string) bool { return !slices.Contains(candidates, v) })
			if len(common) > 0 {
				last.sizes, last.candidates = append(last.sizes, bytes), common
				continue
			}
		}
		all = append(all, sizeRange{[]int{bytes}, candidates})
	}
	return all
}

// allCandidates reports whether every variant is a candidate everywhere.
func (p *part) allCandidates(ranges []sizeRange) bool {
	return !slices.ContainsFunc(ranges, func(s sizeRange) bool { return len(s.candidates) < len(p.variants) })
}

func (p *part) bySize(ranges []sizeRange) string {
	texts := make([]string, len(ranges))
	for i, s := range ranges {
		what := joined(s.candidates, "or")
		if len(s.candidates) == len(p.variants) {
			what = "any"
		}
		switch {
		case len(ranges) == 1:
			texts[i] = what
		case i == 0:
			texts[i] = what + " up to " + size(float64(s.sizes[len(s.sizes)-1]))
		case i == len(ranges)-1:
			texts[i] = what + " from " + size(float64(s.sizes[0]))
		default:
			texts[i] = fmt.Sprintf("%s from %s to %s", what, size(float64(s.sizes[0])), size(float64(s.sizes[len(s.sizes)-1])))
		}
	}
	return strings.Join(texts, ", ")
}
