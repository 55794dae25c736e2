package export

import (
	"fmt"
	"io"
	"strings"

	"wirelab.dev/internal/judge/analysis/insight"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report/format"
)

// WriteAllocationTrees prints the call trees of each end that was profiled, each
// function beneath its caller.
func WriteAllocationTrees(w io.Writer, s *analysis.Summary) error {
	var out strings.Builder
	if len(s.Allocations) == 0 {
		out.WriteString("No trial was profiled for allocations.\n")
	}
	for i := range s.Allocations {
		a := &s.Allocations[i]
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s, %s, the %s: %s in %s objects a call\n", a.Part, a.Variant, a.End, format.ByteSize(int(a.Bytes)), format.Plain(a.Objects))
		writeBranches(&out, a.Tree, "")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeBranches(out *strings.Builder, branches []insight.Branch, indent string) {
	for _, b := range branches {
		names := make([]string, len(b.Functions))
		for i, name := range b.Functions {
			names[i] = format.ShortFunction(name)
		}
		fmt.Fprintf(out, "%5.1f%% %5.1f%%  %s%s\n", 100*b.Bytes, 100*b.Objects, indent, strings.Join(names, " → "))
		writeBranches(out, b.Calls, indent+"  ")
	}
}
