package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report/format"
)

// shownAllocators is the number of functions of an end that a terminal shows.
const shownAllocators = 2

// WriteAllocators prints a line for each end that was profiled: what it allocates, and
// which functions allocate most of it. There may be none.
func WriteAllocators(w io.Writer, s *analysis.Summary) error {
	if len(s.Allocations) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nHeap allocations a call, and who allocates most of the bytes, in trials that were profiled and not measured:")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	part := ""
	for i := range s.Allocations {
		a := &s.Allocations[i]
		if a.Part != part {
			part = a.Part
			fmt.Fprintf(table, "%s\tend\tbytes\tobjects\tby\n", part)
		}
		most := make([]string, 0, shownAllocators)
		for _, f := range a.Functions[:min(len(a.Functions), shownAllocators)] {
			most = append(most, fmt.Sprintf("%s %.0f%%", format.ShortFunction(f.Function), 100*f.Bytes))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", a.Variant, a.End, format.ByteSize(int(a.Bytes)), format.Plain(a.Objects), strings.Join(most, ", "))
	}
	return table.Flush()
}
