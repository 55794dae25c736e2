package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// leverVerdicts has the words for the verdicts on a lever.
var leverVerdicts = map[compare.Verdict]string{
	compare.Faster: "moves it", compare.Slower: "makes it slower", compare.Undecided: "not proven",
}

// LeverVerdict returns the verdict on a lever in words.
func LeverVerdict(e *compare.LeverEffect) string {
	switch {
	case e.Ratio == nil:
		return "no valid trial"
	case e.IsDelay && e.Slope != nil:
		return fmt.Sprintf("%s µs more per µs", units.Number(e.Slope.Value))
	case e.Verdict == compare.Equivalent:
		return "equal within " + words.Percent(e.Margin)
	}
	return leverVerdicts[e.Verdict]
}

// WriteLevers prints the effect of each lever, the largest help first.
func WriteLevers(w io.Writer, tests []compare.LeverTest) error {
	var out strings.Builder
	for i := range tests {
		t := &tests[i]
		what := map[string]string{matrix.Mean: "mean", matrix.P99: "P99", matrix.CPU: "CPU time per call"}[t.Metric]
		at := ""
		if t.Time != nil {
			at = ": " + words.WithInterval(*t.Time, words.Micros)
		}
		fmt.Fprintf(&out, "\n%s over %s, %s %s, %s%s\n", words.Capitalize(what), t.Plain, t.Workload, words.PayloadText(t.Payload), words.Clients(t.Clients), at)
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		share := ""
		if t.Against != "" {
			share = "\tof the difference to " + t.Against
		}
		fmt.Fprintf(table, "lever\t%s with it\tCPU time%s\tverdict\n", what, share)
		for j := range t.Levers {
			e := &t.Levers[j]
			fmt.Fprintf(table, "%s\t%s\t%s", e.Name, factorOrAbsent(e.Ratio), factorOrAbsent(e.CPU))
			if t.Against != "" {
				fmt.Fprintf(table, "\t%s", shareOrAbsent(e.Share))
			}
			fmt.Fprintf(table, "\t%s\n", LeverVerdict(e))
		}
		_ = table.Flush() // a strings.Builder does not fail
		for _, left := range t.NotTried {
			fmt.Fprintf(&out, "not tried: %s: %s\n", left.Name, left.Why)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func factorOrAbsent(f *matrix.Figure) string {
	if f == nil {
		return format.Absent
	}
	return words.FactorText(*f)
}

func shareOrAbsent(f *matrix.Figure) string {
	if f == nil {
		return format.Absent
	}
	return words.WithInterval(*f, words.Percent)
}
