package advice

import (
	"fmt"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// versionNames has the metrics in which the head is compared with the base, in the order of their
// sentences.
var versionNames = []struct{ metric, name string }{
	{matrix.Mean, "mean"}, {matrix.Throughput, "throughput"}, {matrix.P99, "P99"}, {matrix.CPU, "CPU time"},
}

// versionAnswer says of each load how the head differs from the base.
func versionAnswer(s *analysis.Summary, d *analysis.Diff) (lines []string) {
	open := false
	for i := range s.Cells {
		head := &s.Cells[i]
		if head.Version() != record.HeadVersion {
			continue
		}
		var others []string
		verdict := ""
		for _, of := range versionNames {
			one := d.Difference(head, of.metric)
			switch {
			case one == nil:
			case verdict == "":
				verdict = fmt.Sprintf("The head %s, %s: %s %s", versionVerdict(one), words.Clients(head.Clients), of.name, versionChange(one))
				open = open || one.Verdict == compare.Undecided
			default:
				others = append(others, words.Capitalize(of.name)+" "+shortVerdict(one)+": "+versionChange(one)+".")
			}
		}
		if verdict == "" {
			lines = append(lines, fmt.Sprintf("The versions cannot be compared with %s: one of them has no valid trial.", words.Clients(head.Clients)))
			continue
		}
		lines = append(append(lines, verdict+"."), others...)
	}
	if open {
		lines = append(lines, "Do: measure for longer, for example with --budget 10m, or on a quieter machine.")
	}
	return lines
}

func versionVerdict(d *analysis.Difference) string {
	switch d.Verdict {
	case compare.Equivalent:
		return "equals the base within " + units.Percent(d.Margin)
	case compare.Undecided:
		return "may equal the base or not"
	}
	return "is " + string(d.Verdict) + " than the base"
}

func shortVerdict(d *analysis.Difference) string {
	if d.Verdict == compare.Equivalent {
		return "equal within " + units.Percent(d.Margin)
	}
	return string(d.Verdict)
}

// versionChange writes both figures, and the change with its interval.
func versionChange(d *analysis.Difference) string {
	show := words.Micros
	if d.Metric == matrix.Throughput {
		show = words.Rate
	}
	change := words.WithInterval(d.Ratio, func(v float64) string { return fmt.Sprintf("%+.1f %%", 100*(v-1)) })
	return fmt.Sprintf("%s after %s, %s", show(d.After), show(d.Before), change)
}
