package report

import (
	"slices"

	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis/insight"
)

// Pair is two insights that the page can explain one against the other, or one that it
// explains alone, in words. Their figures are in the insights.
type Pair struct {
	Of      int      `json:"of"`                            // B: its place among the insights
	Against *int     `json:"against" jsonschema:"nullable"` // A; null where B is explained alone
	Words   []string `json:"words"`
}

// mostPaired bounds the page: each of n cells at a point against each other gives about n²
// half kilobytes of words, which is half of what their figures take for ten. Beyond it each
// is there against the first alone.
const mostPaired = 12

// pairsOf lists what can be explained: cells at the same point. The usual pair of each point
// comes first.
func pairsOf(insights []insight.Insight) []Pair {
	var all []Pair
	for _, point := range pointsOf(insights) {
		there := make([]insight.Insight, len(point))
		for i, place := range point {
			there[i] = insights[place]
		}
		pair := func(of, against *insight.Insight) Pair {
			p := Pair{Words: advice.Explain(insight.Explain(of, against))}
			for i := range there {
				switch &there[i] {
				case of:
					p.Of = point[i]
				case against:
					p.Against = &point[i]
				}
			}
			return p
		}
		usualOf, usualAgainst := insight.UsualPair(there)
		all = append(all, pair(usualOf, usualAgainst))
		for b := range there {
			for a := range there {
				switch {
				case &there[b] == usualOf && &there[a] == usualAgainst, len(there) > mostPaired && a > 0 && a != b:
				case a != b:
					all = append(all, pair(&there[b], &there[a]))
				case usualAgainst != nil:
					all = append(all, pair(&there[b], nil))
				}
			}
		}
	}
	return all
}

// pointsOf puts the places of insights together that differ in their variant alone.
func pointsOf(insights []insight.Insight) [][]int {
	var points [][]int
	for i := range insights {
		known := slices.IndexFunc(points, func(point []int) bool { return insights[point[0]].IsAt(&insights[i]) })
		if known < 0 {
			points = append(points, []int{i})
			continue
		}
		points[known] = append(points[known], i)
	}
	return points
}
