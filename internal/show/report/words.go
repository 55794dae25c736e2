package report

import (
	"io"
	"strings"
	"unicode/utf8"
)

// WriteWords prints sentences, one a paragraph, wrapped to the terminal.
func WriteWords(w io.Writer, sentences []string, terminal Terminal) error {
	var out strings.Builder
	for _, sentence := range sentences {
		wrap(&out, sentence, layout{width: terminal.Width, lead: "• ", hang: 2})
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// layout is how a paragraph is set.
type layout struct {
	width int    // 0: never wrapped
	lead  string // what the first line begins with
	hang  int    // by how much the other lines are indented
	paint func(string) string
}

// wrap breaks a text between words. A word wider than the line runs over its end.
func wrap(out *strings.Builder, text string, as layout) {
	if as.paint == nil {
		as.paint = func(s string) string { return s }
	}
	line, words := as.lead, 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case words == 0:
			line += word
		case as.width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > as.width:
			out.WriteString(as.paint(line) + "\n")
			line, words = strings.Repeat(" ", as.hang)+word, 0
		default:
			line += " " + word
		}
		words++
	}
	out.WriteString(as.paint(line) + "\n")
}

// style is an ANSI SGR sequence (ECMA-48 8.3.117).
type style string

const (
	usual   style = ""
	bold    style = "1"
	faint   style = "2"
	refused style = "31" // red
)

// painter returns what puts a text into a style, or leaves it alone.
func painter(colour bool) func(style, string) string {
	return func(as style, text string) string {
		if !colour || as == usual {
			return text
		}
		return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
	}
}
