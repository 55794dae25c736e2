// Package words formats the pieces of sentences: figures with their units, lists, points, cells,
// and lines that fit a terminal.
package words

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis/compare"
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

// Percent writes a share in percent, rounded. Between 99 % and 100 % it writes two decimals and rounds
// down, so that 100 % means all.
func Percent(share float64) string {
	percent := math.Round(100 * share)
	if share > 0.99 && share < 1 {
		percent = math.Floor(100*100*share+1e-9) / 100
	}
	return strconv.FormatFloat(percent, 'f', -1, 64) + " %"
}

// Rate writes a number per second.
func Rate(perSecond float64) string { return units.Number(perSecond) + "/s" }

// Clients writes a number of clients.
func Clients(n int) string { return Count(n, "client") }

// WithInterval writes a figure with its interval, if there is one.
func WithInterval(f matrix.Figure, show func(float64) string) string {
	if f.Interval == nil {
		return show(f.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", show(f.Value), show(f.Interval.Low), show(f.Interval.High))
}

// Sentence formats args followed by the joined clauses. It returns nil if there are no clauses.
func Sentence(clauses []string, format string, args ...any) []string {
	if len(clauses) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, append(args, strings.Join(clauses, "; "))...)}
}

// MaxShownItems is the largest number of cells or checks that a sentence names.
const MaxShownItems = 3

// FirstItems keeps the first texts. It formats the number of omitted texts with more.
func FirstItems(texts []string, more string) []string {
	n := len(texts) - MaxShownItems
	if n <= 0 {
		return texts
	}
	return append(texts[:MaxShownItems:MaxShownItems], fmt.Sprintf(more, n))
}

// List joins items as in "a, b and c".
func List(items []string) string { return JoinWith(items, "and") }

// JoinWith joins items with commas, but puts the word in last before the last item.
func JoinWith(items []string, last string) string {
	if n := len(items); n > 1 {
		return strings.Join(items[:n-1], ", ") + " " + last + " " + items[n-1]
	}
	return strings.Join(items, "")
}

// Capitalize writes the first letter of a sentence in upper case.
func Capitalize(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// Count writes a number with its noun in the singular or plural.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// FillLine puts as many items as fit on a line after head, and counts the omitted items.
func FillLine(head string, items []string) []string {
	if len(items) == 0 {
		return nil
	}
	for n := len(items); ; n-- {
		line := head + strings.Join(items[:n], ", ")
		if more := len(items) - n; more > 0 {
			line += fmt.Sprintf(", %d more", more)
		}
		if n == 1 || utf8.RuneCountInString(line) <= MaxLineLength {
			return []string{CutLine(line)}
		}
	}
}

// CutLine shortens a sentence that long names make too long, between words if possible.
func CutLine(line string) string {
	if utf8.RuneCountInString(line) <= MaxSentenceLength {
		return line
	}
	cut := string([]rune(line)[:MaxSentenceLength-1])
	if i := strings.LastIndexByte(cut, ' '); i > MaxSentenceLength/2 {
		cut = strings.TrimRight(cut[:i], " ,;:(")
	}
	return cut + "…"
}

// CommandIndent begins a line that holds only a command.
const CommandIndent = "  "

// CodeIndent begins a line that holds only program code, which is never broken.
const CodeIndent = "\t"

// CutLines shortens sentences that long names make too long. A command and a line of code stay whole.
func CutLines(lines []string) []string {
	return lists.Map(lines, func(line string) string {
		if strings.HasPrefix(line, CommandIndent) || strings.HasPrefix(line, CodeIndent) {
			return line
		}
		return CutLine(line)
	})
}

// Command writes a command so that a POSIX shell reads its arguments unchanged.
func Command(arguments []string) string {
	return strings.Join(lists.Map(arguments, func(text string) string {
		if plain, err := strconv.Unquote(text); err == nil { // manifests quote arguments with spaces
			text = plain
		}
		return flags.Quote(text)
	}), " ")
}

// FactorText writes a ratio in its shortest form, as in "2× (1.9 to 2.1)".
func FactorText(f matrix.Figure) string { return factorText(f, "") }

// RivalText compares a variant with the best one, as in "grpc 2× slower (1.9 to 2.1)". Without a
// verdict it has only the ratio.
func RivalText(name string, r rank.Rival) string {
	word := ""
	switch {
	case r.Times.Interval == nil:
	case r.Verdict == compare.Equivalent:
		word = " equal within " + units.Percent(r.Margin)
	default:
		word = " " + string(r.Verdict.Opposite())
	}
	return name + " " + factorText(r.Times, word)
}

func factorText(f matrix.Figure, word string) string {
	text := units.Number(f.Value) + "×" + word
	if f.Interval != nil {
		text += fmt.Sprintf(" (%s to %s)", units.Number(f.Interval.Low), units.Number(f.Interval.High))
	}
	return text
}

// TimesBetween writes the smallest and the largest of several factors, as in "1.1 to 2.0 times".
func TimesBetween(least, most float64) string {
	from, to := ShortFactor(least), ShortFactor(most)
	switch {
	case from == to:
		return from + " times"
	case least > 0.945 && least < nearOne:
		return "up to " + to + " times"
	}
	return from + " to " + to + " times"
}

// nearOne is the largest factor that is written with two digits after the point.
const nearOne = 1.05

// ShortFactor writes a factor with one digit after the point, or two close to 1.
func ShortFactor(v float64) string {
	switch {
	case v > 0.945 && v < nearOne:
		return fmt.Sprintf("%.2f", v)
	case v < 9.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// SplitCommonPrefix splits names into their common stack and options, and the rest of each name.
func SplitCommonPrefix(names []string) (over string, short []string) {
	first := names[0]
	for i := len(first) - 1; i > 0; i-- {
		begins := func(n string) bool { return len(n) > i+1 && strings.HasPrefix(n, first[:i+1]) }
		if strings.ContainsRune(":,", rune(first[i])) && len(names) > 1 && !slices.ContainsFunc(names, func(n string) bool { return !begins(n) }) {
			return first[:i] + ", ", lists.Map(names, func(n string) string { return n[i+1:] })
		}
	}
	return "", names
}

const (
	// MaxLineLength is the largest length of a line that lists items, in characters.
	MaxLineLength = 99
	// MaxSentenceLength is the largest length of a sentence in an answer: two lines of a terminal.
	MaxSentenceLength = 158
	// MaxLines is the largest number of lines in an answer, without the path below it.
	MaxLines = 7
)

// Seconds writes a time in seconds.
func Seconds(v float64) string { return units.Number(v) + " s" }

// MaxShownRivals is the largest number of other variants whose figures a sentence lists.
const MaxShownRivals = 3

// ExactSize writes all digits of a size, because rounding could make two close sizes equal.
func ExactSize(bytes int) string { return units.Thousands(int64(bytes)) + " B" }

// PointText writes a message size and a number of clients.
func PointText(at rank.Point) string {
	if at.Size == (record.Payload{}) {
		return Clients(at.Clients)
	}
	return PayloadText(at.Size) + ", " + Clients(at.Clients)
}

// DistinguishCell names a cell by its variant, and by properties in which it differs from others.
func DistinguishCell(c *matrix.Cell, others []*matrix.Cell) string {
	text := c.Variant
	differs := func(of func(*matrix.Cell) any) bool {
		return slices.ContainsFunc(others, func(o *matrix.Cell) bool { return of(o) != of(c) })
	}
	if differs(func(c *matrix.Cell) any { return c.Part }) {
		text += " in " + c.Part
	} else if differs(func(c *matrix.Cell) any { return c.Workload }) {
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

// PlainError removes the addresses from the text of a network error, which are those of the service:
// "dial tcp 127.0.0.1:80: connect: connection refused" becomes "connection refused".
func PlainError(text string) string { return networkOperation().ReplaceAllString(text, "") }

var networkOperation = pattern.Lazy(`\b(dial|read|write) (tcp|tcp4|tcp6|udp|unix) \S+: (connect|read|write): `)

// SizeClause begins a clause about a size, unless the workload chooses the size.
func SizeClause(s record.Payload) string {
	if s == (record.Payload{}) {
		return ""
	}
	return "at " + PayloadText(s) + " "
}

// SmallestSizeClause begins a clause about the smallest of a part's sizes, if it has several.
func SmallestSizeClause(p *rank.Part) string {
	if len(p.Sizes) < 2 {
		return ""
	}
	return SizeClause(p.Sizes[0])
}

// MeasuredRange writes the sizes and the numbers of clients that a part covers.
func MeasuredRange(p *rank.Part) string {
	sizes, clients := p.SizeEnds(), p.ClientEnds()
	text := PayloadText(sizes[0])
	if len(sizes) > 1 {
		text += " to " + PayloadText(sizes[1])
	}
	if len(clients) > 1 {
		return fmt.Sprintf("%s with %d to %d clients", text, clients[0], clients[1])
	}
	return text + " with " + Count(clients[0], "client")
}

// PrefixPart puts the part's name before the sentences, if there are several parts.
func PrefixPart(p *rank.Part, parts []*rank.Part, sentences []string) []string {
	if len(parts) < 2 || p.Name == "" {
		return sentences
	}
	return lists.Map(sentences, func(s string) string { return p.Name + ": " + strings.ToLower(s[:1]) + s[1:] })
}
