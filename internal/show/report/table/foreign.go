package table

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report/format"
)

// whose says above a table whose figures stand in it.
func whose(s *analysis.Summary) string {
	return fmt.Sprintf("Imported: figures of %s, not of wirelab.", strings.Join(s.Foreign, ", "))
}

// writeForeign says below a table what the figures of other programs are of, and what is not
// known of them.
func writeForeign(out *strings.Builder, s *analysis.Summary, table Table) {
	if len(s.Foreign) == 0 {
		return
	}
	said := slices.Clone(s.Warnings)
	for _, c := range s.Cells {
		for _, text := range c.Warnings {
			if text = fmt.Sprintf("%s: %s", c.Key, text); len(s.Cells) == 1 {
				text = strings.TrimPrefix(text, c.Key+": ")
			}
			said = append(said, text)
		}
	}
	for _, text := range said {
		format.Wrap(out, text+".", format.Layout{Width: table.room(), Lead: "• ", Hang: 2})
	}
}
