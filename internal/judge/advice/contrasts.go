package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// contrasts says what resumption saves, and then what each other choice of a connection costs.
// It shows them with the most clients and the smallest size, where the connection is most of a
// request.
func contrasts(s *analysis.Summary) []string {
	shown := shownContrasts(s.Contrasts)
	var bought, cost []string
	for _, c := range shown {
		effects := effectsOf(c, s.Declared.Stack(c.Stack).Option(c.Option).Contrast)
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
	where := words.AtSize(shown[0].Payload) + "with " + words.Clients(shown[0].Clients)
	return append(words.Sentence(bought, "What keeping or resuming connections buys, %s: %s.", where), words.Sentence(cost, "What a choice costs, %s: %s.", where)...)
}

// shownContrasts returns the contrasts with the most clients and the smallest request.
// Where several variants of a stack show the same choice, it returns the one whose
// variant has the fewest other options.
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

// metricWords names, for a sentence, what a contrast may change.
var metricWords = map[string]string{
	matrix.CPU:        "the CPU time",
	matrix.Handshake:  "the handshake's time",
	matrix.FirstByte:  "the time to the first byte",
	matrix.Throughput: "the throughput",
	matrix.P99:        "the P99",
	matrix.ServerPeak: "the server's memory",
}

// effectsOf says what changed, by the metrics that the option's stack declares, or
// else by the CPU time, the handshake and the throughput. Early data is sent before
// the handshake ends, so it shortens the time to the first byte, not the handshake.
func effectsOf(c compare.Contrast, declared *scenario.Contrast) string {
	metrics := []string{matrix.CPU, matrix.Handshake, matrix.Throughput}
	switch {
	case c.Option == compare.ByConnection && c.To == string(scenario.Early):
		metrics = []string{matrix.CPU, matrix.FirstByte, matrix.Throughput}
	case declared != nil && len(declared.Metrics) > 0:
		metrics = declared.Metrics
	}
	var saved, changed, alike, open []string
	for _, m := range metrics {
		e, measured := c.Of(m)
		switch {
		case !measured:
		case e.Verdict == compare.Equivalent:
			alike = append(alike, metricWords[m])
		case e.Verdict == compare.Undecided:
			open = append(open, metricWords[m])
		case e.Verdict == compare.Less && m != matrix.Throughput:
			saved = append(saved, words.Between(saving(e.Ratio), words.Share)+" of "+metricWords[m])
		default:
			changed = append(changed, words.Between(e.Ratio, units.Number)+" times "+metricWords[m])
		}
	}
	var parts []string
	for _, part := range []struct {
		verb  string
		texts []string
	}{
		{"saves", saved}, {"has", changed}, {"equals it in", alike}, {"is not proven to differ in", open},
	} {
		if len(part.texts) > 0 {
			parts = append(parts, part.verb+" "+words.List(part.texts))
		}
	}
	return strings.Join(parts, ", ")
}

// saving returns the share that is saved at a ratio below 1.
func saving(ratio matrix.Figure) matrix.Figure {
	saved := matrix.Figure{Value: 1 - ratio.Value}
	if i := ratio.Interval; i != nil {
		saved.Interval = &matrix.Interval{Low: 1 - i.High, High: 1 - i.Low, Confidence: i.Confidence}
	}
	return saved
}
