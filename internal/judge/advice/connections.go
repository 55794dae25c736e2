package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// reconnects reports whether each request of a cell opened a connection of its own.
func reconnects(c *matrix.Cell) bool { return c.Connections.PerRequest && c.Survival.Requests > 0 }

// reconnectionLines says which requests were lost in the parts with a connection per request.
func reconnectionLines(parts []*rank.Part) []string {
	var lines, whole []string
	n := 0
	for _, p := range parts {
		cells := rank.Filter(p.Cells, reconnects)
		if lost := answeredShares("Answered in "+p.Name+": ", cells); len(lost) > 0 {
			lines = append(lines, lost...)
		} else if len(cells) > 0 {
			whole, n = append(whole, p.Name), n+len(cells)
		}
	}
	return append(lines, words.FillLine(fmt.Sprintf("No request was lost with a connection per request, in %s: ", words.Count(n, "cell")), whole)...)
}

// gainOfKeeping describes the largest gain of a stack from keeping its connections.
func gainOfKeeping(s *analysis.Summary) []string {
	shown := slices.DeleteFunc(shownContrasts(s.Contrasts), func(c compare.Contrast) bool { return c.Option != compare.ByConnection })
	if len(shown) == 0 {
		return nil
	}
	best := slices.MaxFunc(shown, func(a, b compare.Contrast) int {
		ofA, _ := a.EffectOn(matrix.Throughput)
		ofB, _ := b.EffectOn(matrix.Throughput)
		return cmp.Compare(ofA.Ratio.Value, ofB.Ratio.Value)
	})
	rate, measured := best.EffectOn(matrix.Throughput)
	if !measured {
		return nil
	}
	line := fmt.Sprintf("%s %s, not %s, %s: %s the throughput", best.Stack, best.To, best.From, words.Clients(best.Clients), words.FactorText(rate.Ratio))
	if cpu, measured := best.EffectOn(matrix.CPU); measured {
		line += ", " + units.Number(cpu.Ratio.Value) + "× the CPU"
	}
	return []string{line + "."}
}

// contrastSentences describes what kept or resumed connections save, then the cost of other
// options. It uses the most clients and the smallest size, where connections matter most.
func contrastSentences(s *analysis.Summary) []string {
	shown := shownContrasts(s.Contrasts)
	var bought, cost []string
	for _, c := range shown {
		effects := describeEffects(c, s.Declared.Stack(c.Stack).Option(c.Option).Contrast)
		if effects == "" {
			continue
		}
		if c.Option == compare.ByConnection {
			bought = append(bought, fmt.Sprintf("%s %s, against %s, %s", c.Stack, c.To, c.From, effects))
		} else {
			cost = append(cost, fmt.Sprintf("%s with %s=%s, against %s, %s", c.Base, c.Option, c.To, c.From, effects))
		}
	}
	if len(shown) == 0 {
		return nil
	}
	where := words.SizeClause(shown[0].Payload) + "with " + words.Clients(shown[0].Clients)
	return append(words.Sentence(bought, "Gains from keeping or resuming connections, %s: %s.", where), words.Sentence(cost, "Cost of options, %s: %s.", where)...)
}

// shownContrasts returns the contrasts with the most clients and the smallest request. Each
// contrast is shown only for the variant with the shortest name.
func shownContrasts(all []compare.Contrast) []compare.Contrast {
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, func(a, b compare.Contrast) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), a.Payload.Compare(b.Payload))
	})
	there := slices.DeleteFunc(slices.Clone(all), func(c compare.Contrast) bool {
		return c.Clients != first.Clients || c.Payload != first.Payload
	})
	var shown []compare.Contrast
	for _, same := range lists.GroupBy(there, func(c compare.Contrast) [4]string { return [4]string{c.Stack, c.Option, c.From, c.To} }) {
		shown = append(shown, slices.MinFunc(same, func(a, b compare.Contrast) int { return len(a.Base) - len(b.Base) }))
	}
	return shown
}

// metricWords maps the metrics that a contrast may change to words.
var metricWords = map[string]string{
	matrix.CPU:        "the CPU time",
	matrix.Handshake:  "the handshake's time",
	matrix.FirstByte:  "the time to the first byte",
	matrix.Throughput: "the throughput",
	matrix.P99:        "the P99",
	matrix.ServerPeak: "the server's memory",
}

// describeEffects describes changes in the metrics that the stack declares for the option, or else
// in CPU time, handshake and throughput. For early data, it describes the time to the first byte,
// because the handshake stays as long.
func describeEffects(c compare.Contrast, declared *scenario.Contrast) string {
	metrics := []string{matrix.CPU, matrix.Handshake, matrix.Throughput}
	switch {
	case c.Option == compare.ByConnection && c.To == string(scenario.Early):
		metrics = []string{matrix.CPU, matrix.FirstByte, matrix.Throughput}
	case declared != nil && len(declared.Metrics) > 0:
		metrics = declared.Metrics
	}
	said := map[string][]string{} // descriptions by their verb
	for _, m := range metrics {
		e, measured := c.EffectOn(m)
		verb, text := "has", words.WithInterval(e.Ratio, units.Number)+" times "+metricWords[m]
		switch {
		case !measured:
			continue
		case e.Verdict == compare.Equivalent && e.Margin <= matrix.Margin:
			verb, text = "is equal in", metricWords[m]+" within "+units.Percent(e.Margin)
		case e.Verdict == compare.Undecided || e.Verdict == compare.Equivalent:
			verb, text = "is not proven to differ in", metricWords[m]
		case e.Verdict == compare.Less && m != matrix.Throughput:
			verb, text = "saves", words.WithInterval(savedShare(e.Ratio), units.Percent)+" of "+metricWords[m]
		}
		said[verb] = append(said[verb], text)
	}
	var parts []string
	for _, verb := range []string{"saves", "has", "is equal in", "is not proven to differ in"} {
		if texts := said[verb]; len(texts) > 0 {
			parts = append(parts, verb+" "+words.List(texts))
		}
	}
	return strings.Join(parts, ", ")
}

// savedShare turns a ratio below 1 into the saved share, 1 minus the ratio.
func savedShare(ratio matrix.Figure) matrix.Figure {
	saved := matrix.Figure{Value: 1 - ratio.Value}
	if i := ratio.Interval; i != nil {
		saved.Interval = &matrix.Interval{Low: 1 - i.High, High: 1 - i.Low, Confidence: i.Confidence}
	}
	return saved
}
