package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// served says how the service stands with the fewest and the most clients.
func served(s *analysis.Summary) []string {
	var lines []string
	for _, p := range rank.PartsOf(s) {
		lines = append(lines, servedWith(p)...)
	}
	return rank.Ends(lines)
}

// servedWith says how the service stands with each number of clients.
func servedWith(p *rank.Part) []string {
	var lines []string
	for _, c := range p.Cells {
		if !c.IsValid() {
			continue
		}
		times := c.ResponseTimes()
		line := fmt.Sprintf("%s: %s answered well", words.Clients(c.Clients), words.Rate(c.Throughput.Value))
		if !math.IsNaN(times.P50.Value) {
			line += ", half within " + words.Micros(times.P50.Value)
		}
		if !math.IsNaN(times.P99.Value) {
			line += ", 99 of 100 within " + words.Micros(times.P99.Value)
		}
		if c.Survival.Requests == c.Survival.Succeeded {
			line += "; none failed"
		}
		lines = append(lines, words.Cut(line+"."))
	}
	return lines
}

// byWire names the variants of services by their wire: they have no other stack.
func byWire(s *analysis.Summary, sentences []string) []string {
	for i := range sentences {
		for _, c := range s.Cells {
			sentences[i] = strings.ReplaceAll(sentences[i], c.Variant, c.ShortVariant())
		}
	}
	return sentences
}

// setbacks describes failures and standstills.
func setbacks(s *analysis.Summary) []string {
	worst := s.Cells[0]
	for _, c := range s.Cells[1:] {
		if c.Survival.Requests-c.Survival.Succeeded > worst.Survival.Requests-worst.Survival.Succeeded {
			worst = c
		}
	}
	var lines []string
	with := ""
	if len(s.Cells) > 1 {
		with = "With " + words.Clients(worst.Clients) + ": "
	}
	if failed := worst.Survival.Requests - worst.Survival.Succeeded; failed > 0 {
		most := worst.Survival.Failures[0]
		share := float64(failed) / float64(worst.Survival.Requests)
		lines = append(lines, words.Cut(fmt.Sprintf("%s%s of the calls failed, mostly so: %s", with, words.Percent(share), most.Example)))
	}
	if n, longest := worst.Standstills(); n > 0 {
		times := "once, for"
		if n > 1 {
			times = fmt.Sprintf("%d times, for up to", n)
		}
		lines = append(lines, fmt.Sprintf("%shardly anything was answered %s about %s.", with, times, words.Micros(1e6*longest)))
	}
	for i, line := range lines {
		lines[i] = strings.ToUpper(line[:1]) + line[1:]
	}
	return lines
}

// refusal says in words why no cell can be believed.
func refusal(s *analysis.Summary) []string {
	if slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return c.IsValid() || len(c.Findings) == 0 }) {
		return nil
	}
	return []string{words.Cut("These figures cannot be believed: " + s.Cells[0].Findings[0].Detail)}
}
