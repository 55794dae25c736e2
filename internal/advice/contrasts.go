package advice

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/scenario"
)

// contrasts says what resumption buys, and then what each other choice of a
// connection costs. They are told with the most clients and the smallest size,
// where the connection is most of a request.
func contrasts(s *analysis.Summary) []string {
	told := tellable(s.Contrasts)
	var bought, cost []string
	for _, c := range told {
		effects := effectsOf(c, s.Declared.Stack(c.Stack).Option(c.Option).Contrast)
		if effects == "" {
			continue
		}
		if c.Option == analysis.ByConnection {
			bought = append(bought, fmt.Sprintf("%s %s, against %s, %s", c.Stack, c.To, c.From, effects))
		} else {
			cost = append(cost, fmt.Sprintf("%s with %s=%s, against %s, %s", c.Base, c.Option, c.To, c.From, effects))
		}
	}
	var sentences []string
	if len(bought) > 0 {
		sentences = append(sentences, fmt.Sprintf("What keeping or resuming connections buys, with %s: %s.", clients(told[0].Clients), strings.Join(bought, "; ")))
	}
	if len(cost) > 0 {
		sentences = append(sentences, fmt.Sprintf("What a choice costs, with %s: %s.", clients(told[0].Clients), strings.Join(cost, "; ")))
	}
	return sentences
}

// tellable are the contrasts with the most clients and the smallest request,
// each choice of a stack once: that of the plainest base.
func tellable(all []analysis.Contrast) []*analysis.Contrast {
	var most int
	for i := range all {
		most = max(most, all[i].Clients)
	}
	smallest := -1
	for i := range all {
		if c := &all[i]; c.Clients == most && (smallest < 0 || c.RequestBytes < smallest) {
			smallest = c.RequestBytes
		}
	}
	var told []*analysis.Contrast
	for i := range all {
		c := &all[i]
		if c.Clients != most || c.RequestBytes != smallest {
			continue
		}
		same := slices.IndexFunc(told, func(o *analysis.Contrast) bool {
			return o.Stack == c.Stack && o.Option == c.Option && o.From == c.From && o.To == c.To
		})
		switch {
		case same < 0:
			told = append(told, c)
		case len(c.Base) < len(told[same].Base):
			told[same] = c
		}
	}
	return told
}

// metricWords are how a sentence calls what a contrast may change.
var metricWords = map[string]string{
	analysis.CPU:        "the CPU time",
	analysis.Handshake:  "the handshake's time",
	analysis.FirstByte:  "the time to the first byte",
	analysis.Throughput: "the throughput",
	analysis.P99:        "the P99",
	analysis.ServerPeak: "the server's memory",
}

// effectsOf says what changed: of the metrics that the option's stack declares, or
// else of the CPU time, the handshake and the throughput. Early data goes before
// the handshake's end, so what it shortens is the time to the first byte.
func effectsOf(c *analysis.Contrast, declared *scenario.Contrast) string {
	metrics := []string{analysis.CPU, analysis.Handshake, analysis.Throughput}
	switch {
	case c.Option == analysis.ByConnection && c.To == string(scenario.Early):
		metrics = []string{analysis.CPU, analysis.FirstByte, analysis.Throughput}
	case declared != nil && len(declared.Metrics) > 0:
		metrics = declared.Metrics
	}
	var saved, changed, alike, open []string
	for _, m := range metrics {
		e, measured := c.Of(m)
		switch {
		case !measured:
		case e.Verdict == analysis.Equivalent:
			alike = append(alike, metricWords[m])
		case e.Verdict == analysis.Undecided:
			open = append(open, metricWords[m])
		case e.Verdict == analysis.Less && m != analysis.Throughput:
			saved = append(saved, between(saving(e.Ratio), percent)+" of "+metricWords[m])
		default:
			changed = append(changed, between(e.Ratio, number)+" times "+metricWords[m])
		}
	}
	var parts []string
	for _, part := range []struct {
		verb  string
		texts []string
	}{
		{"saves", saved}, {"has", changed}, {"equals it in", alike}, {"is not told apart from it in", open},
	} {
		if len(part.texts) > 0 {
			parts = append(parts, part.verb+" "+list(part.texts))
		}
	}
	return strings.Join(parts, ", ")
}

// saving is the share that is not spent at a ratio below 1.
func saving(ratio analysis.Figure) analysis.Figure {
	saved := analysis.Figure{Value: 1 - ratio.Value}
	if i := ratio.Interval; i != nil {
		saved.Interval = &analysis.Interval{Low: 1 - i.High, High: 1 - i.Low, Confidence: i.Confidence}
	}
	return saved
}
