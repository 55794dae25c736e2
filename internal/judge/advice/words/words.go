// Package words formats the pieces of sentences: figures with their units, lists, places, cells,
// and lines that fit a terminal.
//
// It does not know the sentence around them.
package words

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Micros writes a time in a suitable unit.
func Micros(us float64) string { return units.Time(us * 1e3) }

// Size writes a number of bytes in a suitable unit.
func Size(bytes float64) string {
	switch {
	case bytes >= 1<<20:
		return units.Number(bytes/(1<<20)) + " MiB"
	case bytes >= 1<<10:
		return units.Number(bytes/(1<<10)) + " KiB"
	default:
		return units.Number(bytes) + " B"
	}
}

// PayloadText writes the sizes of request and answer, or one size if they are equal.
func PayloadText(p record.Payload) string {
	return p.Text(func(bytes int) string { return Size(float64(bytes)) }, " → ")
}

// Percent writes a share in percent, rounded down, so that 100 % means all.
func Percent(share float64) string {
	scale := 1.0
	if share > 0.99 {
		scale = 100
	}
	return strconv.FormatFloat(math.Floor(share*100*scale+1e-9)/scale, 'f', -1, 64) + " %"
}

// Rate writes a number per second.
func Rate(perSecond float64) string { return units.Number(perSecond) + "/s" }

// Clients writes a number of clients.
func Clients(n int) string { return Count(n, "client") }

// Between writes a figure with its interval, if there is one.
func Between(f matrix.Figure, show func(float64) string) string {
	if f.Interval == nil {
		return show(f.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", show(f.Value), show(f.Interval.Low), show(f.Interval.High))
}

// Sentence formats the clauses as the last argument of format. It returns nothing without clauses.
func Sentence(clauses []string, format string, args ...any) []string {
	if len(clauses) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, append(args, strings.Join(clauses, "; "))...)}
}

// ShownItems bounds how many cells or checks a sentence names.
const ShownItems = 3

// Shortened keeps the first texts, and adds the number of the others, written by the format more.
func Shortened(texts []string, more string) []string {
	n := len(texts) - ShownItems
	if n <= 0 {
		return texts
	}
	return append(texts[:ShownItems:ShownItems], fmt.Sprintf(more, n))
}

// List joins items as in "a, b and c".
func List(items []string) string { return Joined(items, "and") }

// Joined joins items with commas, and puts the word last before the last item.
func Joined(items []string, last string) string {
	if n := len(items); n > 1 {
		return strings.Join(items[:n-1], ", ") + " " + last + " " + items[n-1]
	}
	return strings.Join(items, "")
}

// Upper writes the first letter of a sentence in upper case.
func Upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// Count writes a number with its noun in the singular or plural.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Fill appends as many items as fit on a line after head, and the number of the others.
func Fill(head string, items []string) []string {
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
	return []string{Cut(head + items[0])}
}

// Cut shortens a line that long names make too long.
func Cut(line string) string {
	if utf8.RuneCountInString(line) <= LongestLine {
		return line
	}
	return string([]rune(line)[:LongestLine-1]) + "…"
}

// Counted lists names with the number of things at which they lead, the most frequent first.
func Counted(leads map[string]int, of int, thing string) []string {
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

// Factor writes a ratio in its shortest form, as in "2× (1.9 to 2.1)".
func Factor(f matrix.Figure) string {
	if f.Interval == nil {
		return units.Number(f.Value) + "×"
	}
	return fmt.Sprintf("%s× (%s to %s)", units.Number(f.Value), units.Number(f.Interval.Low), units.Number(f.Interval.High))
}

// Brief splits names into the stack and options that all share, and the rest of each.
func Brief(names []string) (over string, short []string) {
	first := names[0]
	for i := len(first) - 1; i > 0; i-- {
		begins := func(n string) bool { return len(n) > i+1 && strings.HasPrefix(n, first[:i+1]) }
		if strings.ContainsRune(":,", rune(first[i])) && len(names) > 1 && !slices.ContainsFunc(names, func(n string) bool { return !begins(n) }) {
			return first[:i] + ", ", lists.Map(names, func(n string) string { return n[i+1:] })
		}
	}
	return "", names
}

// Share writes a share in percent.
func Share(v float64) string { return units.Number(100*v) + " %" }

// Times writes a ratio as in "2 (1.9 to 2.1) times".
func Times(f matrix.Figure) string { return Between(f, units.Number) + " times" }

const (
	// LongestLine is the length limit of an answer's line, in characters.
	LongestLine = 99
	// MostLines limits an answer's lines. The report's path and a hint follow below them.
	MostLines = 5
)

// Seconds writes a time in seconds.
func Seconds(v float64) string { return units.Number(v) + " s" }

// ShownRivals bounds the other variants whose figures a sentence lists.
const ShownRivals = 3

// ExactSize writes every digit, because the sizes around a step may round to the same text.
func ExactSize(bytes int) string { return units.Thousands(int64(bytes)) + " B" }

// Where names a point.
func Where(at rank.Point) string {
	if at.Size == (record.Payload{}) {
		return Clients(at.Clients)
	}
	return PayloadText(at.Size) + ", " + Clients(at.Clients)
}

// Under names a cell by the properties that the other cells do not share.
func Under(c *matrix.Cell, others []*matrix.Cell) string {
	text := c.Variant
	differs := func(of func(*matrix.Cell) any) bool {
		return slices.ContainsFunc(others, func(o *matrix.Cell) bool { return of(o) != of(c) })
	}
	if differs(func(c *matrix.Cell) any { return c.Workload }) {
		text += " " + c.Workload
	}
	if differs(func(c *matrix.Cell) any { return c.Payload }) {
		text += " at " + PayloadText(c.Payload)
	}
	if differs(func(c *matrix.Cell) any { return c.Clients }) {
		text += " with " + Clients(c.Clients)
	}
	return text
}

// Kept returns the share of requests that were answered.
func Kept(c *matrix.Cell) float64 {
	return float64(c.Survival.Succeeded) / float64(c.Survival.Requests)
}

// BothCPUs gives the CPU time per request of the client and the server.
func BothCPUs(c *matrix.Cell) string {
	return Micros(c.ClientCPU.Value) + " + " + Micros(c.ServerCPU.Value)
}

// WorstFailure gives the most frequent failure of a cell, in brackets.
func WorstFailure(c *matrix.Cell) string {
	if len(c.Survival.Failures) == 0 {
		return ""
	}
	worst := c.Survival.Failures[0]
	return " (" + cmp.Or(worst.Class, worst.Code) + ")"
}

// SizesOf names the sizes of a part at which something holds.
func SizesOf(p *rank.Part, some []rank.Ranking) string {
	switch {
	case len(some) == len(p.Sizes) && len(some) == 2:
		return " at both sizes"
	case len(some) == len(p.Sizes) && len(some) > 2:
		return " at every size"
	case len(p.Sizes) == 1 && p.Sizes[0] == (record.Payload{}):
		return "" // the workload chooses the size
	}
	return " at " + List(lists.Map(some, func(r rank.Ranking) string { return PayloadText(r.At.Size) }))
}

// AtSize begins a clause about a size, unless the workload chooses the size.
func AtSize(s record.Payload) string {
	if s == (record.Payload{}) {
		return ""
	}
	return "at " + PayloadText(s) + " "
}

// AtSmallest begins a clause about the smallest of a part's sizes, if it has several.
func AtSmallest(p *rank.Part) string {
	if len(p.Sizes) < 2 {
		return ""
	}
	return AtSize(p.Sizes[0])
}

// DoubtOf explains why the best variant is not proven best.
func DoubtOf(r rank.Ranking) string {
	text := ""
	switch {
	case r.TooFew:
		return ", in too few trials to be sure"
	case len(r.Equal) == 1:
		text = ", which " + r.Equal[0] + " equals within 5 %"
	case len(r.Equal) > 1:
		text = ", which " + List(r.Equal) + " equal within 5 %"
	}
	if len(r.Unsure) > 0 {
		text += ", though not proven against " + Joined(r.Unsure, "or")
	}
	return text
}

// ExtentOf writes the sizes and the numbers of clients that a part covers.
func ExtentOf(p *rank.Part) string {
	sizes, clients := p.SizeEnds(), p.ClientEnds()
	text := PayloadText(sizes[0])
	if len(sizes) > 1 {
		text += " to " + PayloadText(sizes[1])
	}
	text += fmt.Sprintf(" with %d", clients[0])
	if len(clients) > 1 {
		text += fmt.Sprintf(" to %d", clients[1])
	}
	return text + " clients"
}

// Prefixed puts the part's name before sentences that could be about several parts.
func Prefixed(p *rank.Part, parts []*rank.Part, sentences []string) []string {
	if len(parts) < 2 || p.Name == "" {
		return sentences
	}
	return lists.Map(sentences, func(s string) string { return p.Name + ": " + strings.ToLower(s[:1]) + s[1:] })
}
