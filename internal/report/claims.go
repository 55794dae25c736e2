package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/units"
)

// claimMarks are for the eye; the word stands beside each.
var claimMarks = map[analysis.Outcome]string{
	analysis.Compatible:   "✓",
	analysis.Larger:       ">",
	analysis.Smaller:      "<",
	analysis.Refuted:      "✗",
	analysis.Underpowered: "?",
	analysis.Unmeasured:   "–",
}

// WriteClaims prints a line a claim: whether it holds here, what was measured and what is
// claimed. What is claimed is cut to the line, if it must be.
func WriteClaims(w io.Writer, claims []analysis.Claim, terminal Terminal) error {
	if len(claims) == 0 {
		return nil
	}
	shown := []column{{title: "", left: true}, {title: "row", left: true}, {title: "claim", left: true}, {title: "here"}, {title: "claimed"}, {title: "what is claimed", left: true}}
	rows := make([][]string, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		rows = append(rows, []string{claimMarks[c.Outcome], c.Row, string(c.Outcome), claimHere(c), claimClaimed(c), c.Says})
	}
	for place := range shown {
		shown[place].width = utf8.RuneCountInString(shown[place].title)
		for _, r := range rows {
			shown[place].width = max(shown[place].width, utf8.RuneCountInString(r[place]))
		}
	}
	last := &shown[len(shown)-1]
	before := lineWidth(shown) - last.width
	last.width = max(20, tableWidth(terminal)-before)
	var out strings.Builder
	paint := painter(terminal.Colour)
	line := func(texts []string) string {
		i := -1
		return row(shown, func(c column) string { i++; return cutTo(texts[i], c.width) })
	}
	titles := make([]string, len(shown))
	for i, c := range shown {
		titles[i] = c.title
	}
	out.WriteString("\n" + paint(bold, line(titles)) + "\n")
	for _, r := range rows {
		out.WriteString(strings.TrimRight(line(r), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// claimHere is what the claim comes to here, or nothing.
func claimHere(c *analysis.Claim) string {
	if c.Ratio == nil {
		return absent
	}
	text := units.Number(c.Ratio.Value) + "×"
	if i := c.Ratio.Interval; i != nil {
		text += fmt.Sprintf(" (%s to %s)", units.Number(i.Low), units.Number(i.High))
	}
	return text
}

// claimClaimed is Claimed in the narrow form of a table.
func claimClaimed(c *analysis.Claim) string {
	switch {
	case c.ClaimedRatio != nil:
		return units.Number(*c.ClaimedRatio) + "×"
	case c.AtLeast != nil && c.AtMost != nil:
		return units.Number(*c.AtLeast) + " to " + units.Number(*c.AtMost)
	case c.AtLeast != nil:
		return "≥ " + units.Number(*c.AtLeast)
	case c.AtMost != nil:
		return "≤ " + units.Number(*c.AtMost)
	}
	return "> 1×"
}

// tableWidth is the terminal's, or 100 where there is none.
func tableWidth(terminal Terminal) int {
	if terminal.Width == 0 {
		return 100
	}
	return terminal.Width
}

func cutTo(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
