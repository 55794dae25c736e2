package format

import (
	"cmp"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// A Terminal describes the writer of a table or a view.
type Terminal struct {
	Width  int // width in columns; 0 if the writer is not a terminal
	Height int // number of lines; 0 if the writer is not a terminal
	Colour bool
	ASCII  bool // the locale has only ASCII characters
}

// TerminalOf returns the writer's size, and whether it supports colours and characters beyond ASCII.
func TerminalOf(w io.Writer) Terminal {
	if encoding, is := w.(encodingWriter); is {
		return encoding.terminal
	}
	file, ok := w.(*os.File)
	if !ok {
		return Terminal{}
	}
	t := Terminal{ASCII: hasOnlyASCII(os.Getenv)}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil { // not a terminal
		return t
	}
	t.Width, t.Height, t.Colour = width, height, os.Getenv("NO_COLOR") == ""
	return t
}

// hasOnlyASCII reports whether the locale excludes UTF-8. An environment without a locale, as in
// containers and CI, is taken for UTF-8.
func hasOnlyASCII(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}

// Encode replaces characters that the terminal cannot show.
func (t Terminal) Encode(text string) string {
	if !t.ASCII {
		return text
	}
	return asciiWords.Replace(text)
}

// Writer returns a writer that replaces characters that w's terminal cannot show.
func Writer(w io.Writer) io.Writer {
	if t := TerminalOf(w); t.ASCII {
		return encodingWriter{w, t}
	}
	return w
}

type encodingWriter struct {
	io.Writer
	terminal Terminal
}

// Write takes whole texts: a character that two calls share is not replaced.
func (e encodingWriter) Write(text []byte) (int, error) {
	_, err := io.WriteString(e.Writer, e.terminal.Encode(string(text)))
	return len(text), err
}

// asciiWords replaces every character beyond ASCII that wirelab's texts have. Each sign becomes one
// ASCII character, so that columns stay aligned, unless its meaning takes more.
var asciiWords = strings.NewReplacer(
	"µ", "u", "–", "-", "−", "-", "…", "~", "×", "x", "≤", "<", "±", "+", "·", ".", "•", "*", "└", " ", "→", ">",
	"■", "#", "█", "#", "▏", "|", "▁", "_", "▂", ".", "▃", ",", "▄", "-", "▅", "=", "▆", "+", "▇", "*",
	"σ", "s", "κ", "k",
)

// sparkSigns are the signs of a sparkline, from low to high.
var sparkSigns = []rune("▁▂▃▄▅▆▇█")

// Spark draws values on a scale from zero to the largest, with one sign per value.
func Spark(values []float64) string {
	most := slices.Max(append([]float64{1e-9}, values...))
	signs := make([]rune, len(values))
	for i, value := range values {
		signs[i] = SparkSign(value / most)
	}
	return string(signs)
}

// SparkSign returns the sign for a share from 0 to 1.
func SparkSign(share float64) rune {
	return sparkSigns[int(share*float64(len(sparkSigns)-1)+0.5)]
}
