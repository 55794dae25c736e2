package advice

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func number(v float64) string { return units.Number(v) }

// micros is a time in the unit that suits it.
func micros(us float64) string { return units.Time(us * 1e3) }

func size(bytes float64) string {
	switch {
	case bytes >= 1<<20:
		return number(bytes/(1<<20)) + " MiB"
	case bytes >= 1<<10:
		return number(bytes/(1<<10)) + " KiB"
	default:
		return number(bytes) + " B"
	}
}

// payloadText has both sizes where they differ.
func payloadText(p record.Payload) string {
	return p.Text(func(bytes int) string { return size(float64(bytes)) }, " → ")
}

// percent shows a share in whole percents, or in hundredths of them where it is
// nearly all: it is cut and not rounded, so that 100 % is all.
func percent(share float64) string {
	scale := 1.0
	if share > 0.99 {
		scale = 100
	}
	return strconv.FormatFloat(math.Floor(share*100*scale+1e-9)/scale, 'f', -1, 64) + " %"
}

func rate(perSecond float64) string { return number(perSecond) + "/s" }

func clients(n int) string { return count(n, "client") }

// between adds the interval, if there is one.
func between(f matrix.Figure, show func(float64) string) string {
	if f.Interval == nil {
		return show(f.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", show(f.Value), show(f.Interval.Low), show(f.Interval.High))
}

// sentence puts the clauses into a format as its last argument. It is no sentence
// if there are no clauses.
func sentence(clauses []string, format string, args ...any) []string {
	if len(clauses) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, append(args, strings.Join(clauses, "; "))...)}
}

// shownItems bounds how many cells or checks a sentence names.
const shownItems = 3

// shortened keeps the first texts, and says by the format how many more there are.
func shortened(texts []string, more string) []string {
	n := len(texts) - shownItems
	if n <= 0 {
		return texts
	}
	return append(texts[:shownItems:shownItems], fmt.Sprintf(more, n))
}

// list is a, b and c.
func list(items []string) string { return joined(items, "and") }

func joined(items []string, last string) string {
	if n := len(items); n > 1 {
		return strings.Join(items[:n-1], ", ") + " " + last + " " + items[n-1]
	}
	return strings.Join(items, "")
}

// sizesOf says at which of a part's sizes something holds.
func (p *part) sizesOf(some []ranking) string {
	if len(some) == len(p.sizes) && len(some) > 1 {
		if len(some) == 2 {
			return " at both sizes"
		}
		return " at every size"
	}
	if len(p.sizes) == 1 && p.sizes[0] == (record.Payload{}) {
		return "" // the workload decides
	}
	sizes := make([]record.Payload, len(some))
	for i, r := range some {
		sizes[i] = r.at.size
	}
	return " at " + list(sizeNames(sizes))
}

func sizeNames(sizes []record.Payload) []string {
	names := make([]string, len(sizes))
	for i, s := range sizes {
		names[i] = payloadText(s)
	}
	return names
}

// atSize begins a clause about a size. A workload that decides on its sizes has
// none to be named.
func atSize(s record.Payload) string {
	if s == (record.Payload{}) {
		return ""
	}
	return "at " + payloadText(s) + " "
}

// atSmallest begins a clause about the smallest of a part's sizes.
func (p *part) atSmallest() string {
	if len(p.sizes) < 2 {
		return ""
	}
	return atSize(p.sizes[0])
}

// upper begins a sentence.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// count is a number with its noun in the right form.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
