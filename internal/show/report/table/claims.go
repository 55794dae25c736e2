package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/show/report/format"
)

// ClaimMarks are for the eye; the word stands beside each.
var ClaimMarks = map[compare.Outcome]string{
	compare.Compatible:   "✓",
	compare.Larger:       ">",
	compare.Smaller:      "<",
	compare.Refuted:      "✗",
	compare.Underpowered: "?",
	compare.Unmeasured:   "–",
}

// WriteClaims prints a line a claim: whether it holds here, what was measured and what is
// claimed. What is claimed is cut to a terminal's line, if it must be.
func WriteClaims(w io.Writer, claims []compare.Claim, terminal format.Terminal) error {
	if len(claims) == 0 {
		return nil
	}
	shown := []column{{title: "", left: true}, {title: "row", left: true}, {title: "claim", left: true}, {title: "here"}, {title: "claimed"}, {title: "what is claimed", left: true}}
	rows := make([][]string, 0, len(claims))
	for i := range claims {
		c := &claims[i]
		rows = append(rows, []string{ClaimMarks[c.Outcome], c.Row, string(c.Outcome), ClaimHere(c), c.Claimed(), claimSays(c)})
	}
	for place := range shown {
		shown[place].width = utf8.RuneCountInString(shown[place].title)
		for _, r := range rows {
			shown[place].width = max(shown[place].width, utf8.RuneCountInString(r[place]))
		}
	}
	if terminal.Width > 0 {
		last := &shown[len(shown)-1]
		before := lineWidth(shown) - last.width
		last.width = max(20, terminal.Width-before)
	}
	var out strings.Builder
	paint := format.Painter(terminal.Colour)
	line := func(texts []string) string {
		i := -1
		return row(shown, func(c column) string { i++; return c.pad(cutTo(texts[i], c.width)) })
	}
	titles := make([]string, len(shown))
	for i, c := range shown {
		titles[i] = c.title
	}
	out.WriteString("\n" + paint(format.Bold, line(titles)) + "\n")
	for _, r := range rows {
		out.WriteString(line(r) + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// ClaimHere is what the claim comes to here, or nothing. Between bounds it may be a place
// and not a ratio.
func ClaimHere(c *compare.Claim) string {
	if c.Ratio == nil {
		return format.Absent
	}
	text := units.Number(c.Ratio.Value)
	if c.AtLeast == nil && c.AtMost == nil {
		text += "×"
	}
	if i := c.Ratio.Interval; i != nil {
		text += fmt.Sprintf(" (%s to %s)", units.Number(i.Low), units.Number(i.High))
	}
	return text
}

// claimSays is what is claimed, and why nothing is known of it.
func claimSays(c *compare.Claim) string {
	if c.Ratio == nil && c.Reason != "" {
		return c.Says + " (" + c.Reason + ")"
	}
	return c.Says
}

func cutTo(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
