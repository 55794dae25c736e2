package words

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Where names a point.
func Where(at rank.Point) string {
	if at.Size == (record.Payload{}) {
		return Clients(at.Clients)
	}
	return PayloadText(at.Size) + ", " + Clients(at.Clients)
}

// Under names a cell by what it does not share with the others.
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

// SizeNames writes sizes.
func SizeNames(sizes []record.Payload) []string {
	names := make([]string, len(sizes))
	for i, s := range sizes {
		names[i] = PayloadText(s)
	}
	return names
}

// SizesOf says at which of a part's sizes something holds.
func SizesOf(p *rank.Part, some []rank.Ranking) string {
	if len(some) == len(p.Sizes) && len(some) > 1 {
		if len(some) == 2 {
			return " at both sizes"
		}
		return " at every size"
	}
	if len(p.Sizes) == 1 && p.Sizes[0] == (record.Payload{}) {
		return "" // the workload decides
	}
	sizes := make([]record.Payload, len(some))
	for i, r := range some {
		sizes[i] = r.At.Size
	}
	return " at " + List(SizeNames(sizes))
}

// AtSize begins a clause about a size. A workload that decides on its sizes has no size to
// name.
func AtSize(s record.Payload) string {
	if s == (record.Payload{}) {
		return ""
	}
	return "at " + PayloadText(s) + " "
}

// AtSmallest begins a clause about the smallest of a part's sizes.
func AtSmallest(p *rank.Part) string {
	if len(p.Sizes) < 2 {
		return ""
	}
	return AtSize(p.Sizes[0])
}

// DoubtOf says why the best one is not certainly best.
func DoubtOf(r rank.Ranking) string {
	if r.TooFew {
		return ", in too few trials to be sure"
	}
	text := ""
	switch len(r.Equal) {
	case 0:
	case 1:
		text = ", which " + r.Equal[0] + " equals within 5 %"
	default:
		text = ", which " + List(r.Equal) + " equal within 5 %"
	}
	if len(r.Unsure) > 0 {
		text += ", though not beyond doubt against " + Joined(r.Unsure, "or")
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

// Prefixed puts the part's name before sentences if the same could be said of several parts.
func Prefixed(p *rank.Part, parts []*rank.Part, sentences []string) []string {
	if len(parts) < 2 || p.Name == "" {
		return sentences
	}
	named := make([]string, len(sentences))
	for i, sentence := range sentences {
		named[i] = p.Name + ": " + strings.ToLower(sentence[:1]) + sentence[1:]
	}
	return named
}
