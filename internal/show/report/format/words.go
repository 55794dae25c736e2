package format

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/foreign/flags"
)

// DefaultWidth is the width of a table outside a terminal.
const DefaultWidth = 80

// WriteSentences prints sentences as paragraphs, wrapped to the terminal.
func WriteSentences(w io.Writer, sentences []string, terminal Terminal) error {
	var out strings.Builder
	for _, sentence := range sentences {
		Wrap(&out, sentence, Layout{Width: terminal.Width, Lead: "• ", Hang: 2})
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// A Layout describes the lines of a paragraph.
type Layout struct {
	Width int    // 0 means no wrapping
	Lead  string // text before the first line
	Hang  int    // indent of all lines after the first
	Break string // text at the end of a line that continues
	Paint func(string) string
}

// LayoutOf returns the layout of an answer's line. A line that begins with two spaces is a command,
// whose lines end with a backslash if it is broken. A line that begins with a tab is code, which is
// not broken.
func LayoutOf(line string, terminal Terminal) Layout {
	if strings.HasPrefix(line, "\t") {
		return Layout{Lead: "    "}
	}
	if strings.HasPrefix(line, "  ") {
		return Layout{Width: terminal.Width, Lead: "  ", Hang: 6, Break: " \\"}
	}
	return Layout{Width: terminal.Width, Hang: 2}
}

// Wrap breaks a text between words. A word wider than the line is not broken.
func Wrap(out *strings.Builder, text string, as Layout) {
	if as.Paint == nil {
		as.Paint = func(s string) string { return s }
	}
	line, words := as.Lead, 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case words == 0:
			line += word
		case as.Width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word)+len(as.Break) > as.Width:
			out.WriteString(as.Paint(line+as.Break) + "\n")
			line, words = strings.Repeat(" ", as.Hang)+word, 0
		default:
			line += " " + word
		}
		words++
	}
	out.WriteString(as.Paint(line) + "\n")
}

// A Style is an ANSI SGR sequence (ECMA-48 8.3.117).
type Style string

// Styles of terminal text.
const (
	Normal Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31" // red
)

// Painter returns a function that applies a style to a text, or keeps the text without colours.
func Painter(colour bool) func(Style, string) string {
	return func(as Style, text string) string {
		if !colour || as == Normal {
			return text
		}
		return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
	}
}

// FirstNames joins the first names, and adds the number of omitted names.
func FirstNames(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Grid arranges rows of texts in columns of equal widths, two blanks apart.
func Grid(rows [][]string, isLeft func(column int) bool) []string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	lines := make([]string, len(rows))
	for at, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			blank := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if cells[i] = blank + text; isLeft(i) {
				cells[i] = text + blank
			}
		}
		lines[at] = strings.TrimRight(strings.Join(cells, "  "), " ")
	}
	return lines
}

// QuoteCommand quotes arguments so that a POSIX shell reads them unchanged.
func QuoteCommand(arguments []string) string {
	return strings.Join(lists.Map(arguments, flags.Quote), " ")
}

// Shorten shortens a text to a width.
func Shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
