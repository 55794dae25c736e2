package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// knees says where more clients stop paying, or where tails begin to grow, and
// why that is refused where it is. Curves of too few concurrencies are left to
// [tooFewForKnees].
func knees(s *analysis.Summary, by string) []string {
	opening, absence := "More clients stop paying ", "For no variant do more clients stop paying at any point: "
	if by == analysis.ByTail {
		opening, absence = "P99/P50 begins to grow ", "Nowhere does P99/P50 begin to grow: "
	}
	found, refused := map[float64][]analysis.Knee{}, map[string][]analysis.Knee{}
	var places []float64
	var reasons []string
	for _, k := range s.Knees {
		switch {
		case k.By != by || k.Points < analysis.KneePoints:
		case k.Found:
			places = withNew(places, k.Clients.Value)
			found[k.Clients.Value] = append(found[k.Clients.Value], k)
		default:
			reasons = withNew(reasons, k.Reason)
			refused[k.Reason] = append(refused[k.Reason], k)
		}
	}
	slices.Sort(places)
	slices.SortStableFunc(reasons, func(a, b string) int { return cmp.Compare(len(refused[b]), len(refused[a])) })
	var at, without []string
	for _, n := range places {
		at = append(at, kneesAt(n, found[n]))
	}
	for _, reason := range reasons {
		without = append(without, reason+" ("+curvesOf(refused[reason])+")")
	}
	switch {
	case len(at) == 0 && len(without) == 0:
		return nil
	case len(at) == 0:
		return []string{absence + strings.Join(without, "; ") + "."}
	case len(without) == 0:
		return []string{opening + strings.Join(at, "; ") + "."}
	}
	return []string{opening + strings.Join(at, "; ") + ". Elsewhere " + strings.Join(without, "; ") + "."}
}

// tooFewForKnees says that no curve at all has the concurrencies that a knee
// takes. Beside an answer to some curves that is no news.
func tooFewForKnees(s *analysis.Summary) []string {
	most := 0
	for _, k := range s.Knees {
		most = max(most, k.Points)
	}
	if len(s.Knees) == 0 || most >= analysis.KneePoints {
		return nil
	}
	return []string{fmt.Sprintf("Where more clients stop paying is not told: a knee takes %d concurrencies with valid trials, and no curve has more than %d.",
		analysis.KneePoints, most)}
}

// kneesAt puts the knees at one concurrency together, with what their intervals
// span.
func kneesAt(n float64, knees []analysis.Knee) string {
	text := fmt.Sprintf("at %s for %s", clients(int(n)), curvesOf(knees))
	low, high := n, n
	for _, k := range knees {
		if i := k.Clients.Interval; i != nil {
			low, high = min(low, i.Low), max(high, i.High)
		}
	}
	if low < high {
		text += fmt.Sprintf(" (between %s and %s)", number(low), number(high))
	}
	return text
}

// curvesOf names variants with their sizes, those with equal sizes together.
func curvesOf(knees []analysis.Knee) string {
	knees = slices.Clone(knees)
	slices.SortStableFunc(knees, func(a, b analysis.Knee) int { return cmp.Compare(a.RequestBytes, b.RequestBytes) })
	var variants []string
	sizes := map[string][]string{}
	for _, k := range knees {
		variants = withNew(variants, k.Variant)
		sizes[k.Variant] = withNew(sizes[k.Variant], size(float64(k.RequestBytes)))
	}
	var texts []string
	for len(variants) > 0 {
		at := sizes[variants[0]]
		var same, others []string
		for _, v := range variants {
			if slices.Equal(sizes[v], at) {
				same = append(same, v)
			} else {
				others = append(others, v)
			}
		}
		texts = append(texts, list(same)+" at "+list(at))
		variants = others
	}
	return strings.Join(texts, ", ")
}
