package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// fastest says who has the lowest mean response time, with few clients and with
// many.
func fastest(f *field) []string {
	var sentences []string
	if len(f.variants) < 2 {
		return alone(f)
	}
	for _, n := range f.ends() {
		groups := f.along(analysis.Mean, n)
		clauses := make([]string, len(groups))
		for i, g := range groups {
			clauses[i] = f.claim(g)
		}
		if len(clauses) > 0 {
			sentences = append(sentences, fmt.Sprintf("With %s %s.", clients(n), strings.Join(clauses, "; ")))
		}
	}
	return sentences
}

// claim says what holds of a group of sizes, with the figures of the first and
// the last of them.
func (f *field) claim(group []standing) string {
	first := group[0]
	var text string
	switch {
	case len(first.others) == 0:
		text = "only " + first.best + " has a valid figure"
	case first.once:
		text = first.best + " has the lowest mean"
	case len(first.equal)+len(first.unsure) == 0:
		text = first.best + " is the fastest"
	default:
		text = first.best + " has the lowest mean"
	}
	text += f.sizesOf(bytesOf(group)) + first.reserve() + ": " + f.figures(first, len(group) > 1)
	if len(group) > 1 {
		text += "; " + strings.TrimPrefix(f.figures(group[len(group)-1], true), "a call of ")
	}
	return text
}

// reserve says what keeps the best one from being beyond doubt.
func (s standing) reserve() string {
	if s.once {
		return ", in too few trials to be sure"
	}
	text := ""
	if len(s.equal) > 0 {
		verb := " equals"
		if len(s.equal) > 1 {
			verb = " equal"
		}
		text = ", which " + list(s.equal) + verb + " within 5 %"
	}
	if len(s.unsure) > 0 {
		text += ", though not beyond doubt against " + joined(s.unsure, "or")
	}
	return text
}

// shownRivals bounds how many others a sentence has figures of.
const shownRivals = 3

// figures are the best one's time and how many times as long the others take.
func (f *field) figures(s standing, named bool) string {
	text := "a call takes "
	if named {
		text = "a call of " + size(float64(s.at.bytes)) + " takes "
	}
	text += micros(s.value.Value)
	for i, other := range s.others[:min(len(s.others), shownRivals)] {
		text += ", " + other.other + " " + between(other.times, number)
		if i == 0 {
			text += " times as long"
		}
	}
	return text
}

func bytesOf(group []standing) []int {
	sizes := make([]int, len(group))
	for i, s := range group {
		sizes[i] = s.at.bytes
	}
	return sizes
}

// alone describes a variant that has nothing beside it.
func alone(f *field) []string {
	var clauses []string
	for _, bytes := range f.endSizes() {
		for _, n := range f.ends() {
			if c := f.cell(f.variants[0], spot{bytes, n}); c != nil {
				clauses = append(clauses, fmt.Sprintf("%s with %s %s",
					size(float64(bytes)), clients(n), between(latencies(c).Mean, micros)))
			}
		}
	}
	opening := "There is nothing to compare " + f.variants[0] + " with"
	if slices.ContainsFunc(f.cells, func(c *analysis.Cell) bool { return c.Variant != f.variants[0] }) {
		opening = "Only " + f.variants[0] + " has valid trials"
	}
	return []string{fmt.Sprintf("%s; in the mean, a call takes: %s.", opening, strings.Join(clauses, "; "))}
}
