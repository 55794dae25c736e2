package advice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// knees says where more clients stop paying or where tails begin to grow, and for
// which curves no such point was found, with the reason. Curves of too few
// concurrencies are left to [tooFewForKnees].
func knees(s *analysis.Summary, by string) []string {
	begins := "more clients stop paying"
	if by == curves.ByTail {
		begins = "P99/P50 begins to grow"
	}
	var found, refused []curves.Knee
	for _, k := range s.Knees {
		switch {
		case k.By != by || k.Points < matrix.KneePoints:
		case k.Found:
			found = append(found, k)
		default:
			refused = append(refused, k)
		}
	}
	slices.SortStableFunc(found, func(a, b curves.Knee) int { return cmp.Compare(a.Clients.Value, b.Clients.Value) })
	var at, without []string
	for _, knees := range lists.GroupBy(found, kneePlace) {
		at = append(at, kneePlace(knees[0])+" for "+curvesOf(knees))
	}
	reasons := lists.GroupBy(refused, func(k curves.Knee) string { return k.Reason })
	slices.SortStableFunc(reasons, func(a, b []curves.Knee) int { return cmp.Compare(len(b), len(a)) })
	for _, knees := range reasons {
		without = append(without, knees[0].Reason+" ("+curvesOf(knees)+")")
	}
	switch {
	case len(at) == 0 && len(without) == 0:
		return nil
	case len(at) == 0:
		return []string{"No point was found where " + begins + ": " + strings.Join(without, "; ") + "."}
	case len(without) == 0:
		return []string{words.Upper(begins) + " " + strings.Join(at, "; ") + "."}
	}
	return []string{words.Upper(begins) + " " + strings.Join(at, "; ") + ". Elsewhere " + strings.Join(without, "; ") + "."}
}

// tooFewForKnees says that no curve has enough concurrencies for a knee. It says
// nothing if some curve has.
func tooFewForKnees(s *analysis.Summary) []string {
	most := 0
	for _, k := range s.Knees {
		most = max(most, k.Points)
	}
	if len(s.Knees) == 0 || most >= matrix.KneePoints {
		return nil
	}
	had := "one"
	if most > 0 {
		had = fmt.Sprintf("more than %d", most)
	}
	return []string{fmt.Sprintf("No knee to report: finding where more clients stop paying needs %d concurrencies with three valid trials each, and no curve has %s.",
		matrix.KneePoints, had)}
}

// kneePlace says at how many clients a knee is, with its interval.
func kneePlace(k curves.Knee) string {
	i := k.Clients.Interval
	return fmt.Sprintf("at about %s (%.0f to %.0f)", words.Clients(int(math.Round(k.Clients.Value))), i.Low, i.High)
}

// curvesOf names variants with their sizes, those with equal sizes together.
func curvesOf(knees []curves.Knee) string {
	knees = slices.Clone(knees)
	slices.SortStableFunc(knees, func(a, b curves.Knee) int { return a.Payload.Compare(b.Payload) })
	sizes := map[string][]string{}
	var variants []string
	for _, k := range knees {
		variants = lists.AppendNew(variants, k.Variant)
		sizes[k.Variant] = lists.AppendNew(sizes[k.Variant], words.PayloadText(k.Payload))
	}
	var texts []string
	for _, same := range lists.GroupBy(variants, func(v string) string { return words.List(sizes[v]) }) {
		texts = append(texts, words.List(same)+" at "+words.List(sizes[same[0]]))
	}
	return strings.Join(texts, ", ")
}

// sweepSizes is the fewest sizes along which the analysis seeks crossovers.
const sweepSizes = 4

// crossovers says which variant overtakes which as messages grow.
func crossovers(s *analysis.Summary, parts []*rank.Part) []string {
	var clauses, unclear []string
	for _, c := range s.Crossovers {
		pair := fmt.Sprintf("%s and %s near %s with %s", c.A, c.B, words.Size(c.Bytes.Value), words.Clients(c.Clients))
		if c.Kind == "indistinct" {
			unclear = append(unclear, pair)
			continue
		}
		how := "gradually"
		if c.Kind == "sharp" {
			how = "sharply, from one size to the next"
		}
		clauses = append(clauses, fmt.Sprintf("%s overtakes %s at %s with %s, %s", c.B, c.A, words.Between(c.Bytes, words.Size), words.Clients(c.Clients), how))
	}
	sentences := append(words.Sentence(clauses, "As messages grow, %s."), words.Sentence(unclear, "Whether these cross at all is within the noise: %s.")...)
	if len(sentences) > 0 {
		return sentences
	}
	return withoutCrossover(parts)
}

// withoutCrossover says of every part along whose sizes one could have been found that
// none was, or that there were too few trials to look.
func withoutCrossover(parts []*rank.Part) []string {
	var sentences []string
	for _, p := range parts {
		same := slices.DeleteFunc(slices.Clone(p.Sizes), func(s record.Payload) bool { return s.RequestBytes != s.ResponseBytes || s.RequestBytes == 0 })
		if len(same) >= sweepSizes && len(p.Variants) > 1 {
			sentences = append(sentences, words.Prefixed(p, parts, []string{noCrossover(p)})...)
		}
	}
	return sentences
}

// noCrossover covers the pairs of variants along whose sizes the analysis looked.
func noCrossover(p *rank.Part) string {
	type sweep struct {
		a, b    string
		clients int
	}
	sizes := map[sweep][]record.Payload{}
	for _, c := range p.Comparisons {
		if c.Metric == matrix.Mean && c.Ratio.Interval != nil && c.RequestBytes == c.ResponseBytes && c.RequestBytes > 0 {
			s := sweep{c.A, c.B, c.Clients}
			sizes[s] = append(sizes[s], c.Payload)
		}
	}
	maps.DeleteFunc(sizes, func(_ sweep, sizes []record.Payload) bool { return len(sizes) < sweepSizes })
	if len(sizes) == 0 {
		return fmt.Sprintf("No crossover to report: finding where one variant overtakes another as messages grow needs three trials of both at %d sizes.", sweepSizes)
	}
	whole := len(slices.DeleteFunc(slices.Collect(maps.Values(sizes)), func(s []record.Payload) bool { return len(s) < len(p.Sizes) }))
	if whole == len(p.Clients)*len(p.Variants)*(len(p.Variants)-1)/2 {
		return fmt.Sprintf("From %s to %s no variant was seen to overtake another.", words.PayloadText(p.Sizes[0]), words.PayloadText(p.Sizes[len(p.Sizes)-1]))
	}
	return "As messages grow no variant was seen to overtake another, where there were trials enough to look."
}

// limits says what an in-flight limit did, in both ways of counting.
func limits(s *analysis.Summary) []string {
	var sentences []string
	for _, l := range s.Limits {
		ofCall, ofCaller := "", ""
		if !math.IsNaN(l.TailWithout + l.TailWithService + l.TailWithResponse) { // else too few requests
			ofCall = fmt.Sprintf(" and P99/P50 %s instead of %s", units.Number(l.TailWithService), units.Number(l.TailWithout))
			ofCaller = fmt.Sprintf(", P99/P50 is %s and P99 %s instead of %s", units.Number(l.TailWithResponse), words.Micros(l.P99WithUS), words.Micros(l.P99WithoutUS))
		}
		sentences = append(sentences, fmt.Sprintf(
			"At most %d in flight on %s (%s, %s): counted from the permit on, the mean is %s times that without the limit%s;"+
				" with the wait for the permit, which callers see, the mean is %s times that without%s; throughput is %s times that without.",
			l.Limit, l.Without, words.PayloadText(l.Payload), words.Clients(l.Clients),
			words.Between(l.MeanServiceRatio, units.Number), ofCall, words.Between(l.MeanResponseRatio, units.Number), ofCaller, words.Between(l.ThroughputRatio, units.Number)))
	}
	if n := len(s.Limits); n > 0 && rank.ClosedLoop(s, s.Limits[n-1].Part) {
		last := s.Limits[n-1].Clients
		sentences[n-1] += fmt.Sprintf(" By Little's law the mean that the callers of a closed loop see is their number over the throughput"+
			" (%d clients here), so a limit lowers it only as far as it raises throughput; the rest moves from the call to the wait before it.", last)
	}
	return sentences
}

func crossoverLines(s *analysis.Summary) []string {
	var lines []string
	for _, c := range s.Crossovers {
		if c.Kind != "indistinct" {
			lines = append(lines, words.Cut(fmt.Sprintf("%s overtakes %s from %s on, with %s.", c.B, c.A, words.Between(c.Bytes, words.Size), words.Clients(c.Clients))))
		}
	}
	return lines
}

// bottlenecks says of every curve, one sentence each, what keeps it from its ideal line.
func bottlenecks(s *analysis.Summary) []string {
	var sentences []string
	for _, scaling := range s.Scalings {
		sentences = append(sentences, Bottleneck(scaling))
	}
	return sentences
}

// Bottleneck says what keeps one curve from its ideal line. The diagnosis itself holds the
// figures.
func Bottleneck(s curves.Scaling) string {
	d := s.Diagnosis
	name := s.Variant
	if !strings.Contains(name, "conn=") {
		name += " (" + s.Connection + ")"
	}
	switch d.Bottleneck {
	case curves.OnConnection:
		return fmt.Sprintf("%s: %s %s: use %s, which carries %s as much.",
			name, connectionsOf(d), serialises(d), d.Better, words.Times(*d.Gain))
	case curves.MaybeConnection:
		return fmt.Sprintf("%s: %s may hold %d callers, who get %s of the ideal throughput while neither end's CPU is busy; measure conn=pool:4 beside it to be sure.",
			name, connectionsOf(d), d.Clients, words.Share(*d.Share))
	case curves.OnClientCPU, curves.OnServerCPU:
		end, busy := "client", d.Client
		if d.Bottleneck == curves.OnServerCPU {
			end, busy = "server", d.Server
		}
		return fmt.Sprintf("%s: no bottleneck found in its connections; the %s's CPU is the limit, %s busy with %d in flight%s.",
			name, end, words.Share(busy.Value), d.Clients, moreDidNotHelp(d))
	case curves.OnBothCPUs:
		return fmt.Sprintf("%s: no bottleneck found in its connections; the CPUs are mostly busy with %d in flight%s.",
			name, d.Clients, moreDidNotHelp(d))
	case curves.NoBottleneck:
		return fmt.Sprintf("%s: no bottleneck found with %d in flight, at %s of the ideal throughput%s.",
			name, d.Clients, words.Share(*d.Share), moreDidNotHelp(d))
	default:
		return fmt.Sprintf("%s: its bottleneck is unknown, because one call in flight alone was not measured.", name)
	}
}

// serialises says how callers wait for a connection: each for the call before it, if one
// request is on the way at a time, or for their turn to be written.
func serialises(d curves.Diagnosis) string {
	verb := "serialises"
	if d.Connections.Value > 1 {
		verb = "serialise"
	}
	if d.PerWrite != nil && d.PerWrite.Value > 1.5 {
		return fmt.Sprintf("%s %d callers in the client's writer", verb, d.Clients)
	}
	return fmt.Sprintf("%s %d callers, each waiting for calls before it", verb, d.Clients)
}

func connectionsOf(d curves.Diagnosis) string {
	if d.Connections.Value == 1 {
		return "one connection"
	}
	return fmt.Sprintf("%s connections", units.Number(d.Connections.Value))
}

func moreDidNotHelp(d curves.Diagnosis) string {
	if d.Gain == nil {
		return ""
	}
	return fmt.Sprintf(" (%s carries %s as much)", d.Better, words.Times(*d.Gain))
}

// bestInFlight says who carries most with the most calls in flight, one line per workload.
func bestInFlight(s *analysis.Summary) []string {
	var lines []string
	for _, ofWork := range lists.GroupBy(s.Scalings, func(c curves.Scaling) string { return c.Part + c.Workload }) {
		most := ofWork[0].Points[len(ofWork[0].Points)-1].Clients
		var all []curves.Scaling
		for _, curve := range ofWork {
			if curve.Points[len(curve.Points)-1].Clients == most {
				all = append(all, curve)
			}
		}
		carries := func(c curves.Scaling) float64 { return c.Points[len(c.Points)-1].Throughput.Value }
		slices.SortStableFunc(all, func(a, b curves.Scaling) int { return cmp.Compare(carries(b), carries(a)) })
		over, names := words.Brief(lists.Map(all, func(c curves.Scaling) string { return c.Variant }))
		items := make([]string, len(all))
		for i, c := range all {
			items[i] = names[i] + " " + words.Rate(carries(c))
		}
		lines = append(lines, words.Fill(fmt.Sprintf("%s%s, %d in flight: ", over, ofWork[0].Workload, most), items)...)
	}
	return lines
}
