package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// choice is the rule for choosing that the measurements support: at each end of
// the concurrencies, the fewest stretches of sizes over which there is a variant
// that nothing measured speaks against.
func choice(f *field) []string {
	if len(f.variants) < 2 {
		return nil
	}
	if !f.repeated() {
		return []string{fmt.Sprintf("There are too few trials of each cell of %s to choose by: what differs may be the machine. Three repeats give verdicts.", f.part)}
	}
	var rules, clauses []string
	open := true
	for _, n := range f.ends() {
		stretches := f.stretches(analysis.Mean, n)
		open = open && f.nothingSpeaks(stretches)
		rules = append(rules, f.rule(stretches))
		clauses = append(clauses, "with "+clients(n)+" "+rules[len(rules)-1])
	}
	if len(rules) == 2 && rules[0] == rules[1] {
		clauses = []string{fmt.Sprintf("%s, with %s as with %d", rules[0], clients(f.clients[0]), f.most())}
	}
	tails := f.stretches(analysis.P99, f.most())
	open = open && f.nothingSpeaks(tails)
	if open {
		return []string{fmt.Sprintf("Nothing measured here speaks for one of %s over the others: choose by other merits.", list(f.variants))}
	}
	sentence := "To choose: " + strings.Join(clauses, "; ")
	if f.nothingSpeaks(tails) {
		sentence += "; by P99 they cannot be told apart there"
	} else {
		sentence += fmt.Sprintf("; where P99 with %s matters, %s", clients(f.most()), f.byStretch(tails))
	}
	return []string{sentence + "."}
}

// stretch is sizes that follow each other and have candidates in common.
type stretch struct {
	sizes      []int
	candidates []string
}

func (f *field) stretches(metric string, n int) []stretch {
	var all []stretch
	for _, bytes := range f.sizes {
		s, ok := f.stand(metric, spot{bytes, n})
		if !ok || len(s.others) == 0 {
			continue
		}
		candidates := s.candidates()
		if len(all) > 0 {
			last := &all[len(all)-1]
			common := slices.DeleteFunc(slices.Clone(last.candidates), func(v string) bool { return !slices.Contains(candidates, v) })
			if len(common) > 0 {
				last.sizes, last.candidates = append(last.sizes, bytes), common
				continue
			}
		}
		all = append(all, stretch{[]int{bytes}, candidates})
	}
	return all
}

// nothingSpeaks tells whether every variant is a candidate everywhere.
func (f *field) nothingSpeaks(stretches []stretch) bool {
	return !slices.ContainsFunc(stretches, func(s stretch) bool { return len(s.candidates) < len(f.variants) })
}

func (f *field) rule(stretches []stretch) string {
	if f.nothingSpeaks(stretches) {
		return "nothing speaks for one over the others"
	}
	return f.byStretch(stretches)
}

func (f *field) byStretch(stretches []stretch) string {
	texts := make([]string, len(stretches))
	for i, s := range stretches {
		what := joined(s.candidates, "or")
		if len(s.candidates) == len(f.variants) {
			what = "any"
		}
		switch {
		case len(stretches) == 1:
			texts[i] = what
		case i == 0:
			texts[i] = what + " up to " + size(float64(s.sizes[len(s.sizes)-1]))
		case i == len(stretches)-1:
			texts[i] = what + " from " + size(float64(s.sizes[0]))
		default:
			texts[i] = fmt.Sprintf("%s from %s to %s", what, size(float64(s.sizes[0])), size(float64(s.sizes[len(s.sizes)-1])))
		}
	}
	return strings.Join(texts, ", ")
}
