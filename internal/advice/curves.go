package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// knees says where more clients stop paying or where tails begin to grow, and for
// which curves no such point was found, with the reason. Curves of too few
// concurrencies are left to [tooFewForKnees].
func knees(s *analysis.Summary, by string) []string {
	opening, absence := "More clients stop paying ", "For no variant do more clients stop paying at any point: "
	if by == analysis.ByTail {
		opening, absence = "P99/P50 begins to grow ", "Nowhere does P99/P50 begin to grow: "
	}
	var found, refused []analysis.Knee
	for _, k := range s.Knees {
		switch {
		case k.By != by || k.Points < analysis.KneePoints:
		case k.Found:
			found = append(found, k)
		default:
			refused = append(refused, k)
		}
	}
	slices.SortStableFunc(found, func(a, b analysis.Knee) int { return cmp.Compare(a.Clients.Value, b.Clients.Value) })
	var at, without []string
	for _, knees := range grouped(found, kneePlace) {
		at = append(at, kneePlace(knees[0])+" for "+curvesOf(knees))
	}
	reasons := grouped(refused, func(k analysis.Knee) string { return k.Reason })
	slices.SortStableFunc(reasons, func(a, b []analysis.Knee) int { return cmp.Compare(len(b), len(a)) })
	for _, knees := range reasons {
		without = append(without, knees[0].Reason+" ("+curvesOf(knees)+")")
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

// tooFewForKnees says that no curve has enough concurrencies for a knee. It says
// nothing if some curve has.
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

// kneePlace says at how many clients a knee is, with its interval.
func kneePlace(k analysis.Knee) string {
	i := k.Clients.Interval
	return fmt.Sprintf("at about %s (%.0f to %.0f)", clients(int(math.Round(k.Clients.Value))), i.Low, i.High)
}

// curvesOf names variants with their sizes, those with equal sizes together.
func curvesOf(knees []analysis.Knee) string {
	knees = slices.Clone(knees)
	slices.SortStableFunc(knees, func(a, b analysis.Knee) int { return cmp.Compare(a.RequestBytes, b.RequestBytes) })
	sizes := map[string][]string{}
	var variants []string
	for _, k := range knees {
		variants = withNew(variants, k.Variant)
		sizes[k.Variant] = withNew(sizes[k.Variant], size(float64(k.RequestBytes)))
	}
	var texts []string
	for _, same := range grouped(variants, func(v string) string { return list(sizes[v]) }) {
		texts = append(texts, list(same)+" at "+list(sizes[same[0]]))
	}
	return strings.Join(texts, ", ")
}

// sweepSizes is the fewest sizes along which the analysis seeks crossovers.
const sweepSizes = 4

// crossovers says which variant overtakes which as messages grow.
func crossovers(s *analysis.Summary, parts []*part) []string {
	var clauses, unclear []string
	for _, c := range s.Crossovers {
		pair := fmt.Sprintf("%s and %s near %s with %s", c.A, c.B, size(c.Bytes.Value), clients(c.Clients))
		if c.Kind == "indistinct" {
			unclear = append(unclear, pair)
			continue
		}
		how := "gradually"
		if c.Kind == "sharp" {
			how = "sharply, from one size to the next"
		}
		clauses = append(clauses, fmt.Sprintf("%s overtakes %s at %s with %s, %s", c.B, c.A, between(c.Bytes, size), clients(c.Clients), how))
	}
	sentences := append(sentence(clauses, "As messages grow, %s."), sentence(unclear, "Whether these cross at all is within the noise: %s.")...)
	if len(sentences) > 0 {
		return sentences
	}
	return withoutCrossover(parts)
}

// withoutCrossover says that none was found, or that there were too few trials to
// look.
func withoutCrossover(parts []*part) []string {
	long := slices.DeleteFunc(slices.Clone(parts), func(p *part) bool {
		return len(p.sizes) < sweepSizes || len(p.variants) < 2
	})
	for _, p := range long {
		if p.repeated() {
			return []string{fmt.Sprintf("From %s to %s no variant overtakes another.",
				size(float64(p.sizes[0])), size(float64(p.sizes[len(p.sizes)-1])))}
		}
	}
	if len(long) > 0 {
		return []string{"Where one variant overtakes another as messages grow cannot be told from so few trials: it takes three of each cell."}
	}
	return nil
}

// limits says what an in-flight limit did, in both ways of counting.
func limits(s *analysis.Summary) []string {
	var sentences []string
	for _, l := range s.Limits {
		sentences = append(sentences, fmt.Sprintf(
			"At most %d in flight on %s (%s, %s): counted from the permit on, as the published study did, the mean is %s times that without the limit"+
				" and P99/P50 %s instead of %s; with the wait for the permit, which callers see, the mean is %s times that without,"+
				" P99/P50 is %s and P99 %s instead of %s; throughput is %s times that without.",
			l.Limit, l.Without, size(float64(l.RequestBytes)), clients(l.Clients),
			between(l.MeanServiceRatio, number), number(l.TailWithService), number(l.TailWithout),
			between(l.MeanResponseRatio, number), number(l.TailWithResponse), micros(l.P99WithUS), micros(l.P99WithoutUS),
			between(l.ThroughputRatio, number)))
	}
	if n := len(s.Limits); n > 0 {
		last := s.Limits[n-1].Clients
		sentences[n-1] += fmt.Sprintf(" By Little's law the mean that the callers of a closed loop see is their number over the throughput"+
			" (%d clients here), so a limit lowers it only as far as it raises throughput; the rest moves from the call to the wait before it.", last)
	}
	return sentences
}
