package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// kneeSentences names each curve's knee: the number of clients at which throughput stops growing or
// tails start growing. If a curve has no knee, it gives the reason. [noKneeSentence] covers curves
// with too few numbers of clients.
func kneeSentences(s *analysis.Summary, by string) []string {
	begins := "throughput stops growing"
	if by == curves.KneeOfTail {
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
	at := lists.Map(lists.GroupBy(found, kneePlace), func(knees []curves.Knee) string { return kneePlace(knees[0]) + " for " + variantsWithSizes(knees) })
	reasons := lists.GroupBy(refused, func(k curves.Knee) string { return k.Reason })
	slices.SortStableFunc(reasons, func(a, b []curves.Knee) int { return cmp.Compare(len(b), len(a)) })
	without := lists.Map(reasons, func(knees []curves.Knee) string { return knees[0].Reason + " (" + variantsWithSizes(knees) + ")" })
	if len(at) == 0 {
		return words.Sentence(without, "No point was found where "+begins+": %s.")
	}
	text := words.Capitalize(begins) + " " + strings.Join(at, "; ") + "."
	if len(without) > 0 {
		text += " Elsewhere " + strings.Join(without, "; ") + "."
	}
	return []string{text}
}

// noKneeSentence says that no curve has enough numbers of clients to find a knee.
func noKneeSentence(s *analysis.Summary) []string {
	if len(s.Knees) == 0 || slices.ContainsFunc(s.Knees, func(k curves.Knee) bool { return k.Points >= matrix.KneePoints }) {
		return nil
	}
	return []string{fmt.Sprintf("No knee found, because a knee needs %d numbers of clients with three valid trials each.", matrix.KneePoints)}
}

func kneePlace(k curves.Knee) string {
	i := k.Clients.Interval
	return fmt.Sprintf("at about %s (%.0f to %.0f)", words.Clients(int(math.Round(k.Clients.Value))), i.Low, i.High)
}

// variantsWithSizes lists variants with their message sizes. Variants with the same sizes share one
// entry.
func variantsWithSizes(knees []curves.Knee) string {
	knees = slices.Clone(knees)
	slices.SortStableFunc(knees, func(a, b curves.Knee) int { return a.Payload.Compare(b.Payload) })
	sizes := map[string][]string{}
	var variants []string
	for _, k := range knees {
		variants = lists.AppendNew(variants, k.Variant)
		sizes[k.Variant] = lists.AppendNew(sizes[k.Variant], words.PayloadText(k.Payload))
	}
	alike := lists.GroupBy(variants, func(v string) string { return words.List(sizes[v]) })
	return strings.Join(lists.Map(alike, func(same []string) string { return words.List(same) + " at " + words.List(sizes[same[0]]) }), ", ")
}

// sweepSizes is the smallest number of sizes that the analysis needs to find a crossover.
const sweepSizes = 4

// crossoverLines names each variant that becomes faster than another as messages grow.
func crossoverLines(s *analysis.Summary) (lines []string) {
	for _, c := range s.Crossovers {
		if c.Kind == "indistinct" {
			continue
		}
		how := "gradually"
		if c.Kind == "sharp" {
			how = "sharply, from one size to the next"
		}
		lines = append(lines, fmt.Sprintf("%s overtakes %s at %s with %s, %s.", c.B, c.A, words.WithInterval(c.Bytes, words.Size), words.Clients(c.Clients), how))
	}
	return lines
}

// crossoverSentences adds crossings that may be noise. Without any, it says that no variant overtakes
// another if the run has enough sizes.
func crossoverSentences(s *analysis.Summary) []string {
	var unclear []string
	for _, c := range s.Crossovers {
		if c.Kind == "indistinct" {
			unclear = append(unclear, fmt.Sprintf("%s and %s near %s with %s", c.A, c.B, words.Size(c.Bytes.Value), words.Clients(c.Clients)))
		}
	}
	if len(s.Crossovers) > 0 {
		return append(crossoverLines(s), words.Sentence(unclear, "These crossings may be noise: %s.")...)
	}
	swept := lists.GroupBy(slices.DeleteFunc(slices.Clone(s.Comparisons), func(c compare.Comparison) bool {
		return c.Metric != matrix.Mean || c.Ratio.Interval == nil || c.RequestBytes != c.ResponseBytes || c.RequestBytes == 0
	}), func(c compare.Comparison) string { return fmt.Sprint(c.Part, c.A, c.B, c.Clients) })
	if slices.ContainsFunc(swept, func(sizes []compare.Comparison) bool { return len(sizes) >= sweepSizes }) {
		return []string{"As messages grow, no variant overtakes another at the sizes with enough trials."}
	}
	return nil
}

// limitEffects describes the effect of an in-flight limit on service and response times.
func limitEffects(s *analysis.Summary) []string {
	return lists.Map(s.Limits, func(l compare.LimitEffect) string {
		tail := ""
		if !math.IsNaN(l.P99WithUS + l.P99WithoutUS) { // NaN: unknown
			tail = fmt.Sprintf(", and its P99 is %s instead of %s", words.Micros(l.P99WithUS), words.Micros(l.P99WithoutUS))
		}
		return fmt.Sprintf("At most %d in flight on %s (%s, %s): from the actual send, a call takes %s as long as without the limit;"+
			" with the wait for the limit, it takes %s as long%s; throughput is %s as high.",
			l.Limit, l.Without, words.PayloadText(l.Payload), words.Clients(l.Clients), words.FactorText(l.MeanServiceRatio), words.FactorText(l.MeanResponseRatio), tail, words.FactorText(l.ThroughputRatio))
	})
}

// bottleneckSentences returns one sentence per curve about its bottleneck.
func bottleneckSentences(s *analysis.Summary) []string { return lists.Map(s.Scalings, Bottleneck) }

// Bottleneck describes the cause that keeps a curve's throughput below its ideal.
func Bottleneck(s curves.Scaling) string {
	d := s.Diagnosis
	name := s.Variant
	if !strings.Contains(name, "conn=") {
		name += " (" + s.Connection + ")"
	}
	connections := "one connection"
	if d.Connections.Value != 1 {
		connections = units.Number(d.Connections.Value) + " connections"
	}
	noHelp := ""
	if d.Gain != nil {
		noHelp = fmt.Sprintf(" (%s has %s the throughput)", d.Better, words.FactorText(*d.Gain))
	}
	switch d.Bottleneck {
	case curves.OnConnection:
		return fmt.Sprintf("%s: %s %s: use %s, which has %s the throughput.", name, connections, describeSerialising(d), d.Better, words.FactorText(*d.Gain))
	case curves.MaybeConnection:
		return fmt.Sprintf("%s: %s may make %d callers wait: they get %s of the ideal throughput, and no CPU is busy; to be sure, measure conn=pool:4, too.",
			name, connections, d.Clients, units.Percent(*d.Share))
	case curves.OnClientCPU:
		return fmt.Sprintf("%s: no bottleneck found in its connections; the client's CPU is the limit, %s busy with %d in flight%s.", name, units.Percent(d.Client.Value), d.Clients, noHelp)
	case curves.OnServerCPU:
		return fmt.Sprintf("%s: no bottleneck found in its connections; the server's CPU is the limit, %s busy with %d in flight%s.", name, units.Percent(d.Server.Value), d.Clients, noHelp)
	case curves.OnBothCPUs:
		return fmt.Sprintf("%s: no bottleneck found in its connections; the CPUs are mostly busy with %d in flight%s.", name, d.Clients, noHelp)
	case curves.NoBottleneck:
		return fmt.Sprintf("%s: no bottleneck found with %d in flight, at %s of the ideal throughput%s.", name, d.Clients, units.Percent(*d.Share), noHelp)
	default:
		return fmt.Sprintf("%s: its bottleneck is unknown: measure it with one call in flight, too.", name)
	}
}

// describeSerialising says whether callers wait for earlier calls to end, or for the client's
// writer.
func describeSerialising(d curves.Diagnosis) string {
	verb := "serialises"
	if d.Connections.Value > 1 {
		verb = "serialise"
	}
	if d.PerWrite != nil && d.PerWrite.Value > 1.5 {
		return fmt.Sprintf("%s %d callers in the client's writer", verb, d.Clients)
	}
	return fmt.Sprintf("%s %d callers, each waiting for earlier calls", verb, d.Clients)
}

// bestInFlight ranks each workload's variants by throughput with the most calls in flight.
func bestInFlight(s *analysis.Summary) []string {
	var lines []string
	last := func(c curves.Scaling) curves.ScalingPoint { return c.Points[len(c.Points)-1] }
	for _, ofWork := range lists.GroupBy(s.Scalings, func(c curves.Scaling) string { return c.Part + c.Workload }) {
		most := last(ofWork[0]).Clients
		all := slices.DeleteFunc(slices.Clone(ofWork), func(c curves.Scaling) bool { return last(c).Clients != most })
		slices.SortStableFunc(all, func(a, b curves.Scaling) int { return cmp.Compare(last(b).Throughput.Value, last(a).Throughput.Value) })
		over, names := words.SplitCommonPrefix(lists.Map(all, func(c curves.Scaling) string { return c.Variant }))
		items := make([]string, len(all))
		for i, c := range all {
			items[i] = names[i] + " " + words.Rate(last(c).Throughput.Value)
		}
		lines = append(lines, words.FillLine(fmt.Sprintf("%s%s, %d in flight: ", over, ofWork[0].Workload, most), items)...)
	}
	return lines
}
