package insight

import (
	"fmt"
	"slices"
	"strings"
)

// ExplainCells explains one cell, or the difference between two with a comma between. A cell is
// named by as much of its name as it takes.
func ExplainCells(cells string, among []Insight) (*Explanation, error) {
	names := strings.Split(cells, ",")
	if len(names) > 2 {
		names = splitVariants(names, among)
	}
	if len(names) > 2 {
		return nil, fmt.Errorf("want one cell or two, found %d", len(names))
	}
	var chosen []*Insight
	for _, name := range names {
		one, err := findInsight(name, among, chosen)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, one)
	}
	if len(chosen) == 1 {
		return Explain(chosen[0], nil), nil
	}
	return Explain(chosen[1], chosen[0]), nil
}

// splitVariants joins the words to names, if a variant's name contains commas.
func splitVariants(words []string, among []Insight) []string {
	for cut := 1; cut < len(words); cut++ {
		names := []string{strings.Join(words[:cut], ","), strings.Join(words[cut:], ",")}
		if !slices.ContainsFunc(names, func(name string) bool { return len(matching(name, among)) == 0 }) {
			return names
		}
	}
	if name := strings.Join(words, ","); len(matching(name, among)) > 0 {
		return []string{name}
	}
	return words
}

// matching returns the insights that a name may mean: a variant, or a part of the whole name.
func matching(name string, among []Insight) []*Insight {
	var variants, parts []*Insight
	for i := range among {
		one := &among[i]
		place := one.Key()
		switch {
		case place == name:
			return []*Insight{one}
		case one.Variant == name:
			variants = append(variants, one)
		case strings.Contains("/"+place+"/", "/"+name+"/"):
			parts = append(parts, one)
		}
	}
	if len(variants) > 0 {
		return variants
	}
	return parts
}

// findInsight returns the insight that a name means. Of several it takes the one at the same
// point as the cell that was chosen before, or else the first if all have the same variant.
func findInsight(name string, among []Insight, before []*Insight) (*Insight, error) {
	found := matching(name, among)
	if len(found) == 0 {
		var places []string
		for i := range among {
			places = append(places, among[i].Key())
		}
		return nil, fmt.Errorf("no cell that was looked into is %q; there are\n  %s", name, strings.Join(places, "\n  "))
	}
	for _, one := range found {
		if len(before) > 0 && one.IsAt(before[0]) && one != before[0] {
			return one, nil
		}
	}
	return found[0], nil
}
