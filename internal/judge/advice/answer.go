package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

const (
	// LongestLine of an answer, in characters.
	LongestLine = 99
	// MostLines of an answer. Where the report lies, and how to see why, stands below them.
	MostLines = 5
)

// Answer is what a run comes to, in a few short lines: what was found, the one thing to do,
// and how far to trust it. All else is in the sentences of Advise.
func Answer(s *analysis.Summary) []string {
	if len(s.Foreign) > 0 {
		return foreignAnswer(s)
	}
	if isService(s) {
		return slices.Concat(refusal(s), served(s), setbacks(s), fleet(s), trust(s))
	}
	last := slices.Concat(nextStep(s), fleet(s), trust(s))
	lines := slices.Concat(isPartial(s), judgedAnew(s), stillOpen(s), claimCount(s), found(s))
	return append(lines[:min(len(lines), MostLines-len(last))], last...)
}

// found answers the question of a scenario of this kind, the most important first.
func found(s *analysis.Summary) []string {
	parts := partsOf(s)
	switch {
	case len(parts) == 0:
		return nil
	case s.IsSweep():
		return bestInFlight(s)
	case s.Report.Cases && len(parts) > 1:
		first, others := casesCounted(s)
		return slices.Concat(first, shareLines(s), burstLines(s), sustainedLine(s), others)
	}
	main := mainPart(parts)
	if len(s.Claims) > 0 && len(main.sizes)*len(main.clients) < 2 {
		return append(stepLines(s), linkLines(s)...) // each claim has a line, and nothing else was asked
	}
	return slices.Concat(fastestOverEach(s, main, parts), stepLines(s), lifecycleLines(s, parts), searchLines(s), burstLines(s), sustainedLine(s), directions(parts), compared(main), shareLines(s), crossoverLines(s), alone(main))
}

func mainPart(parts []*part) *part {
	return slices.MaxFunc(parts, func(a, b *part) int { return len(a.cells) - len(b.cells) })
}

// filled puts as many items as fit behind a line's head, and says how many more there are.
func filled(head string, items []string) []string {
	if len(items) == 0 {
		return nil
	}
	for n := len(items); n > 0; n-- {
		line := head + strings.Join(items[:n], ", ")
		if more := len(items) - n; more > 0 {
			line += fmt.Sprintf(", %d more", more)
		}
		if utf8.RuneCountInString(line) <= LongestLine {
			return []string{line}
		}
	}
	return []string{cut(head + items[0])}
}

// cut shortens a line that names make too long.
func cut(line string) string {
	if utf8.RuneCountInString(line) <= LongestLine {
		return line
	}
	return string([]rune(line)[:LongestLine-1]) + "…"
}

func isPartial(s *analysis.Summary) []string {
	if !s.Partial() {
		return nil
	}
	return []string{fmt.Sprintf("Partial: %d of %d trials were done.", s.Done, s.Planned)}
}

// timesAs is how many times as much, as short as can be.
func timesAs(f matrix.Figure) string {
	if f.Interval == nil {
		return number(f.Value) + "×"
	}
	return fmt.Sprintf("%s× (%s to %s)", number(f.Value), number(f.Interval.Low), number(f.Interval.High))
}

// compared says who is fastest at how many points, and by how much at the ends.
func compared(p *part) []string {
	if len(p.variants) < 2 || len(p.sizes) == 0 || p.searched() {
		return nil
	}
	var all []ranking
	for _, size := range p.sizes {
		for _, n := range p.clients {
			if r, ok := p.rank(matrix.Mean, point{size, n}); ok && len(r.rivals) > 0 {
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	lines := []string{whoLeads(all)}
	low, high := all[0], all[len(all)-1]
	lines = append(lines, byHowMuch(low)...)
	if high.at != low.at {
		lines = append(lines, byHowMuch(high)...)
	}
	return append(lines, bestRate(p)...)
}

// whoLeads counts the points at which a variant is fastest, beyond doubt or not.
func whoLeads(all []ranking) string {
	wins, ties, open, tooFew := map[string]int{}, 0, 0, 0
	lowest := map[string]int{}
	for _, r := range all {
		lowest[r.best]++
		switch {
		case r.tooFew:
			tooFew++
		case r.isSure():
			wins[r.best]++
		case len(r.unsure) == 0:
			ties++
		default:
			open++
		}
	}
	if tooFew == len(all) {
		return filled("Lowest mean, without a verdict: ", counted(lowest, len(all), "point"))[0]
	}
	head, items := "Fastest beyond doubt: ", counted(wins, len(all), "point")
	if len(wins) == 0 {
		head = fmt.Sprintf("None of %s is fastest beyond doubt: ", count(len(all), "point")) // each is undecided, or a tie
	}
	for _, other := range []struct {
		n    int
		text string
	}{{ties, "equal within 5 %"}, {open, "undecided"}, {tooFew, "too few trials"}} {
		if other.n > 0 {
			items = append(items, fmt.Sprintf("%s at %d", other.text, other.n))
		}
	}
	return filled(head, items)[0]
}

// counted are names with how often they lead of so many things, those that do most first.
func counted(leads map[string]int, of int, thing string) []string {
	names := slices.SortedFunc(maps.Keys(leads), func(a, b string) int { return cmp.Or(cmp.Compare(leads[b], leads[a]), cmp.Compare(a, b)) })
	return lists.Map(names, func(name string) string {
		switch {
		case of == 1:
			return name
		case leads[name] == of:
			return fmt.Sprintf("%s at all %d %ss", name, of, thing)
		case name == names[0]:
			return fmt.Sprintf("%s at %d of %d %ss", name, leads[name], of, thing)
		}
		return fmt.Sprintf("%s at %d", name, leads[name])
	})
}

// byHowMuch is the best one's time, and how many times as long the others take.
func byHowMuch(r ranking) []string {
	over, names := brief(append([]string{r.best}, lists.Map(r.rivals, func(other rival) string { return other.variant })...))
	items := make([]string, len(r.rivals))
	for i, other := range r.rivals {
		items[i] = names[i+1] + " " + timesAs(other.times)
	}
	return filled(fmt.Sprintf("%s%s: %s %s; ", over, where(r.at), names[0], micros(r.value.Value)), items)
}

// brief takes the stack and the options that all names begin with out of them.
func brief(names []string) (over string, short []string) {
	first := names[0]
	for i := len(first) - 1; i > 0; i-- {
		begins := func(n string) bool { return len(n) > i+1 && strings.HasPrefix(n, first[:i+1]) }
		if strings.ContainsRune(":,", rune(first[i])) && len(names) > 1 && !slices.ContainsFunc(names, func(n string) bool { return !begins(n) }) {
			return first[:i] + ", ", lists.Map(names, func(n string) string { return n[i+1:] })
		}
	}
	return "", names
}

func where(at point) string {
	if at.size == (record.Payload{}) {
		return clients(at.clients)
	}
	return payloadText(at.size) + ", " + clients(at.clients)
}

// bestRate is of each variant at its best concurrency, with the smallest messages.
func bestRate(p *part) []string {
	if !p.closed() || len(p.clients) < 2 {
		return nil
	}
	peaks := p.peaks(p.sizes[0])
	if len(peaks) < 2 {
		return nil
	}
	head := "best rate: "
	if p.sizes[0] != (record.Payload{}) {
		head = "best rate, " + payloadText(p.sizes[0]) + ": "
	}
	over, names := brief(lists.Map(peaks, func(c *matrix.Cell) string { return c.Variant }))
	items := make([]string, len(peaks))
	for i, c := range peaks {
		items[i] = fmt.Sprintf("%s %s (%s)", names[i], rate(c.Throughput.Value), clients(c.Clients))
	}
	return filled(over+head, items)
}

// alone is of a variant that has nothing beside it.
func alone(p *part) []string {
	if len(p.variants) != 1 {
		return nil
	}
	var lines []string
	for _, c := range p.cells {
		if !c.IsValid() {
			continue
		}
		times := c.ResponseTimes()
		line := fmt.Sprintf("%s, %s: %s in the mean", c.Variant, where(point{c.Payload, c.Clients}), between(times.Mean, micros))
		if p99 := metricOf(matrix.P99, c); p99 != nil {
			line += ", P99 " + micros(p99.Value)
		}
		lines = append(lines, cut(line+", "+rate(c.Throughput.Value)+"."))
	}
	return ends(lines)
}

// directions hold messages that are large one way against those that are large the other way,
// with the fewest and with the most clients.
func directions(parts []*part) []string {
	var lines []string
	for _, p := range parts {
		for _, size := range p.sizes {
			back := record.Payload{RequestBytes: size.ResponseBytes, ResponseBytes: size.RequestBytes}
			if size.RequestBytes >= size.ResponseBytes || !slices.Contains(p.sizes, back) {
				continue
			}
			for _, n := range p.clientEnds() {
				var items []string
				for _, variant := range p.variants {
					up, down := p.cell(variant, point{back, n}), p.cell(variant, point{size, n})
					if up != nil && down != nil {
						items = append(items, fmt.Sprintf("%s %s×", variant, number(down.ResponseTimes().Mean.Value/up.ResponseTimes().Mean.Value)))
					}
				}
				lines = append(lines, filled(fmt.Sprintf("%s over %s, %s: ", payloadText(size), payloadText(back), clients(n)), items)...)
			}
		}
	}
	return lines
}
