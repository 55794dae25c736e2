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
		wrap(&out, "• "+sentence, layout{width: terminal.Width, hang: 2})
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// layout is how a paragraph is set.
type layout struct {
	width int // 0: never wrapped
	hang  int // by how much the lines after the first are indented
	paint func(string) string
}

// wrap breaks a text between words. A word wider than the line stands alone.
func wrap(out *strings.Builder, text string, as layout) {
	if as.paint == nil {
		as.paint = func(s string) string { return s }
	}
	indent := strings.Repeat(" ", as.hang)
	current := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case strings.TrimSpace(current) == "":
			current += word
		case as.width > 0 && utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > as.width:
			out.WriteString(as.paint(current) + "\n")
			current = indent + word
		default:
			current += " " + word
		}
	}
	out.WriteString(as.paint(current) + "\n")
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
