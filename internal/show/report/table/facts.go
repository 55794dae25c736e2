package table

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Fact says something about a load's calls in words.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// FactsOf returns what the page of a load says about its calls beside the figures.
func FactsOf(c *matrix.Cell) (facts []Fact) {
	add := func(name string, parts ...string) {
		if len(parts) > 0 {
			facts = append(facts, Fact{name, strings.Join(parts, ", ")})
		}
	}
	if sizes := SizesOf(c.Answers); sizes != nil {
		add("Sizes", sizes.String())
	}
	add("Bytes", DescribeBytes(c)...)
	if n := c.Survival.Resent; n > 0 {
		add("Sent again", units.Thousands(n))
	}
	if n := c.Survival.Outside; n > 0 {
		add("Not measured", units.Thousands(n)+" outside the window")
	}
	if c.Streams != nil {
		add("Streams", describeStreams(c.Streams)...)
	}
	add("Called", describeAddresses(c.Addresses)...)
	return facts
}

// DescribeBytes returns how many bytes came in and went out, or nil if that is unknown.
func DescribeBytes(c *matrix.Cell) []string {
	b := c.Bytes
	if b == nil || b.Calls == 0 {
		return nil
	}
	direction := func(way string, bytes int64) string {
		text := words.Size(float64(bytes)) + " " + way
		if c.WindowSeconds > 0 && c.Trials == 1 {
			text += fmt.Sprintf(" (%s/s)", words.Size(float64(bytes)/c.WindowSeconds))
		}
		return text
	}
	parts := []string{direction("in", b.ReceivedHeaderBytes+b.ReceivedBodyBytes), direction("out", b.SentHeaderBytes+b.SentBodyBytes)}
	if !b.KnowsHeaders() {
		parts = append(parts, "without headers")
	}
	return parts
}

// describeStreams returns the counts of held streams, and how far they differ. Remarks tell what went wrong.
func describeStreams(s *matrix.Streams) []string {
	held := units.Thousands(s.Held) + " held"
	if s.CallersPerStream > 1 {
		held += fmt.Sprintf(" with up to %d messages in flight", s.CallersPerStream)
	}
	messages := units.Thousands(s.Received)
	if s.Sent > 0 {
		messages = units.Thousands(s.Sent) + " messages sent, " + messages
	} else {
		messages += " messages"
	}
	parts := []string{held, messages + " received, with the warm-up"}
	if p := s.PerStream; p != nil {
		parts = append(parts, fmt.Sprintf("%s to %s on each", units.Thousands(p.Fewest), units.Thousands(p.Most)),
			fmt.Sprintf("mean %s to %s (stream %d)", words.Micros(p.FastestMeanUS), words.Micros(p.SlowestMeanUS), p.Slowest))
	}
	return parts
}

// maxShownAddresses limits the addresses that a text names.
const maxShownAddresses = 8

// describeAddresses returns how many requests each address of the service got, and their mean time.
func describeAddresses(a *matrix.Addresses) []string {
	if a == nil {
		return nil
	}
	called := 0
	var each []string
	for _, one := range a.All {
		if one.Requests > 0 {
			called++
		}
		text := one.Address + ": " + units.Thousands(one.Requests)
		if one.Failed > 0 {
			text += fmt.Sprintf(" (%s failed)", units.Thousands(one.Failed))
		}
		if one.MeanUS != nil {
			text += " at " + words.Micros(*one.MeanUS)
		}
		each = append(each, text)
	}
	if more := len(each) - maxShownAddresses; more > 0 {
		each = append(each[:maxShownAddresses], fmt.Sprintf("%d more in --json", more))
	}
	if l := a.LookUps; l != nil {
		each = append(each, fmt.Sprintf("%s during the load, %s, %s failed", words.Count(int(l.Done), "look-up"), words.Count(int(l.Changes), "change"), units.Thousands(l.Failed)))
	}
	each[0] = fmt.Sprintf("%d of %d addresses; requests and mean of each: %s", called, len(a.All), each[0])
	return each
}
