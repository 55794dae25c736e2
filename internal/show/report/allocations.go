package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
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
			most = append(most, fmt.Sprintf("%s %.0f%%", shortFunction(f.Function), 100*f.Bytes))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", a.Variant, a.End, byteSize(int(a.Bytes)), plain(a.Objects), strings.Join(most, ", "))
	}
	return table.Flush()
}

// WriteAllocationTrees prints the call trees of each end that was profiled, each
// function beneath its caller.
func WriteAllocationTrees(w io.Writer, run *Run) error {
	var out strings.Builder
	if len(run.Summary.Allocations) == 0 {
		out.WriteString("No trial was profiled for allocations.\n")
	}
	for i := range run.Summary.Allocations {
		a := &run.Summary.Allocations[i]
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s, %s, the %s: %s in %s objects a call\n", a.Part, a.Variant, a.End, byteSize(int(a.Bytes)), plain(a.Objects))
		writeBranches(&out, a.Tree, "")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeBranches(out *strings.Builder, branches []insight.Branch, indent string) {
	for _, b := range branches {
		names := make([]string, len(b.Functions))
		for i, name := range b.Functions {
			names[i] = shortFunction(name)
		}
		fmt.Fprintf(out, "%5.1f%% %5.1f%%  %s%s\n", 100*b.Bytes, 100*b.Objects, indent, strings.Join(names, " → "))
		writeBranches(out, b.Calls, indent+"  ")
	}
}

// shortFunction is a function's name without the path of its package.
func shortFunction(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
