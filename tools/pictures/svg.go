package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A run is a piece of a line that has one style.
type run struct {
	text, style string // style is one of the classes of the SVG, or empty
}

// styles holds the class for each SGR sequence that wirelab prints (internal/show/report/format).
var styles = map[string]string{"1": "bold", "2": "faint", "31": "red"}

var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)([A-Za-z])")

// screen splits the text of a terminal into lines of runs. A style within another one replaces it
// until both end, as on a terminal.
func screen(text string) [][]run {
	var lines [][]run
	style := ""
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n") {
		var runs []run
		add := func(text string) {
			if text != "" {
				runs = append(runs, run{text, style})
			}
		}
		from := 0
		for _, at := range sequence.FindAllStringSubmatchIndex(line, -1) {
			add(line[from:at[0]])
			from = at[1]
			if line[at[4]:at[5]] == "m" {
				style = styles[line[at[2]:at[3]]]
			}
		}
		add(line[from:])
		lines = append(lines, runs)
	}
	return lines
}

// Sizes in pixels.
const (
	advance, height = 8, 19 // of one character
	margin          = 16
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label="The terminal after a run of wirelab compare">
<style>
rect { fill: #ffffff; stroke: #d0d7de }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
.bold { font-weight: 700 } .faint { fill: #6e7781 } .red { fill: #b42318 }
@media (prefers-color-scheme: dark) {
rect { fill: #0d1117; stroke: #30363d } text { fill: #e6edf3 } .faint { fill: #8b949e } .red { fill: #ff7b72 }
}
</style>
<rect x="0.5" y="0.5" width="%[3]d" height="%[4]d" rx="8"/>
`

// svg draws the lines. Each run begins at its own place, so that columns stay aligned in any font.
func svg(lines [][]run, columns int) string {
	var out strings.Builder
	wide, high := columns*advance+2*margin, len(lines)*height+2*margin
	fmt.Fprintf(&out, head, wide, high, wide-1, high-1)
	for number, runs := range lines {
		at := 0
		for _, r := range runs {
			size := utf8.RuneCountInString(r.text)
			class := ""
			if r.style != "" {
				class = fmt.Sprintf(` class="%s"`, r.style)
			}
			if strings.TrimSpace(r.text) != "" {
				fmt.Fprintf(&out, `<text x="%d" y="%d" textLength="%d"%s>%s</text>`+"\n",
					margin+at*advance, margin+number*height+14, size*advance, class, html.EscapeString(r.text))
			}
			at += size
		}
	}
	return out.String() + "</svg>\n"
}
