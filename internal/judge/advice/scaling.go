package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
)

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
