package table

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/show/report/format"
)

// ClaimMarks marks outcomes for the eye; the word stands beside each.
var ClaimMarks = map[compare.Outcome]string{
	compare.Compatible:   "✓",
	compare.Larger:       ">",
	compare.Smaller:      "<",
	compare.Refuted:      "✗",
	compare.Underpowered: "?",
	compare.Unmeasured:   "–",
}

// WriteClaims prints a line per claim: whether it holds here, what was measured and what is
// claimed. What is claimed is cut to a terminal's line, if it must be.
func WriteClaims(w io.Writer, claims []compare.Claim, terminal format.Terminal) error {
	if len(claims) == 0 {
		return nil
	}
	const last = "what is claimed"
	rows := [][]string{{"", "row", "claim", "here", "claimed", last}}
	for i := range claims {
		c := &claims[i]
		rows = append(rows, []string{ClaimMarks[c.Outcome], c.Row, string(c.Outcome), ClaimHere(c), c.Claimed(), claimSays(c)})
	}
	lines := format.Grid(rows, func(column int) bool { return column < 3 || column == 5 })
	width := math.MaxInt
	if terminal.Width > 0 {
		width = max(terminal.Width, utf8.RuneCountInString(lines[0])-len(last)+20)
	}
	var out strings.Builder
	out.WriteString("\n" + format.Painter(terminal.Colour)(format.Bold, lines[0]) + "\n")
	for _, line := range lines[1:] {
		out.WriteString(cutTo(line, width) + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// ClaimHere returns the claim's figure here, if there is one. Between bounds it may be a place
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

// claimSays returns what is claimed, and why it could not be measured.
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
