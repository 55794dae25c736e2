package gate

import (
	"fmt"
	"strings"
)

// markdownTable is a table for a pull request. Sides has a letter a column: l for texts, r for
// numbers.
func markdownTable(titles []string, sides string, rows [][]string) string {
	var out strings.Builder
	line := func(cells []string) {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	line(titles)
	marks := make([]string, len(titles))
	for i := range marks {
		marks[i] = map[byte]string{'l': "---", 'r': "---:"}[sides[i]]
	}
	line(marks)
	for _, row := range rows {
		escaped := make([]string, len(row))
		for i, cell := range row {
			escaped[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		line(escaped)
	}
	return out.String()
}
