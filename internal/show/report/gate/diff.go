package gate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// A DiffReport holds the differences between two runs, and gate outcomes of the later run.
type DiffReport struct {
	*analysis.Diff
	Gates  []GateResult `json:"gates"`
	Answer []string     `json:"answer"` // a few short lines

	findings []analysis.GateFinding
}

// A GateResult holds the outcomes of one gate (a condition of --fail-if) in all cells.
type GateResult struct {
	Gate       string   `json:"gate"`
	Breached   []string `json:"breached"`    // names of cells that are certainly beyond the limit
	CannotTell []string `json:"cannot_tell"` // names of cells whose interval contains the limit, or that lack the figure
}

// NewDiffReport groups the findings of gates by gate.
func NewDiffReport(d *analysis.Diff, findings []analysis.GateFinding) *DiffReport {
	r := &DiffReport{Diff: d, findings: findings}
	for _, f := range findings {
		g := lists.FindOrAdd(&r.Gates, GateResult{Gate: f.Gate}, func(g GateResult) bool { return g.Gate == f.Gate })
		switch f.Outcome {
		case analysis.GateBreached:
			g.Breached = append(g.Breached, f.Cell)
		case analysis.GateOpen:
			g.CannotTell = append(g.CannotTell, f.Cell)
		}
	}
	r.Answer = r.answerLines()
	return r
}

// answerLines returns verdict counts per figure, gate outcomes, and doubts, one per line.
func (r *DiffReport) answerLines() []string {
	if r.Versions {
		return nil // the run's own answer compares the versions
	}
	var lines []string
	for _, of := range []struct{ metric, name string }{{matrix.Mean, "Mean"}, {matrix.P99, "P99"}, {matrix.CPU, "CPU time"}} {
		if line := r.countVerdicts(of.metric, of.name); line != "" {
			lines = append(lines, line)
		}
	}
	in := func(cells []string) string {
		return " in " + words.Count(len(cells), r.Noun) + ": " + format.FirstNames(cells, 1)
	}
	for _, g := range r.Gates {
		switch {
		case len(g.Breached) > 0:
			lines = append(lines, "BREACHED     "+g.Gate+in(g.Breached))
		case len(g.CannotTell) > 0:
			lines = append(lines, "cannot tell  "+g.Gate+in(g.CannotTell)+": "+r.firstReason(g.Gate))
		default:
			lines = append(lines, "kept         "+g.Gate)
		}
	}
	if only := len(r.OnlyInBefore) + len(r.OnlyInAfter); only > 0 {
		lines = append(lines, fmt.Sprintf("Not compared: %s that only one run has.", words.Count(only, r.Noun)))
	}
	if len(r.Invalid) > 0 {
		lines = append(lines, fmt.Sprintf("One of the runs has no valid trial of %s: %s", words.Count(len(r.Invalid), r.Noun), format.FirstNames(r.Invalid, 1)))
	}
	if now, repeats := r.RepeatsToHalve(); repeats > 0 && len(r.Gates) == 0 {
		lines = append(lines, fmt.Sprintf("Do: these runs know a change of the mean within %.0f %%; take about %d repeats in each run to halve that.", 100*now, repeats))
	}
	trust := "Trust: the runs did not alternate"
	for _, change := range r.Anchor[:min(1, len(r.Anchor))] {
		trust += "; " + change.Describe()
	}
	trust += "."
	if len(r.Doubts) > 0 {
		trust = "Trust: " + strings.Join(r.Doubts, "; ") + "."
	}
	return append(lines, trust)
}

// firstReason returns the first reason why a gate cannot tell.
func (r *DiffReport) firstReason(of string) string {
	i := slices.IndexFunc(r.findings, func(f analysis.GateFinding) bool { return f.Gate == of && f.Why != "" })
	return describeFinding(r.findings[i])
}

// countVerdicts counts the verdicts of one figure. It returns "" if none was compared.
func (r *DiffReport) countVerdicts(metric, name string) string {
	n, all := map[compare.Verdict]int{}, 0
	for _, d := range r.Differences {
		if d.Metric == metric {
			n[d.Verdict]++
			all++
		}
	}
	var texts []string
	for _, v := range []compare.Verdict{compare.Slower, compare.Faster, compare.More, compare.Less, compare.Equivalent, compare.Undecided} {
		if n[v] > 0 {
			texts = append(texts, fmt.Sprintf("%s in %d", v, n[v]))
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%s, of %s: %s.", name, words.Count(all, r.Noun), strings.Join(texts, ", "))
}

// shownDifferences returns differences of means, and differences that are proven or used by gates.
func (r *DiffReport) shownDifferences() []analysis.Difference {
	return slices.DeleteFunc(slices.Clone(r.Differences), func(d analysis.Difference) bool {
		asked := slices.ContainsFunc(r.findings, func(f analysis.GateFinding) bool { return f.Change != nil && f.Change.Metric == d.Metric })
		decided := d.Verdict != compare.Undecided && d.Verdict != compare.Equivalent
		return !r.Versions && d.Metric != matrix.Mean && !asked && !decided
	})
}

// titles returns the titles of the columns of diffRow.
func (r *DiffReport) titles() []string {
	before, after := "before", "after"
	if r.Versions {
		before, after = r.Before, r.After
	}
	return []string{r.Noun, "figure", before, after, "change", "verdict", "trials"}
}

func diffRow(d analysis.Difference) []string {
	return []string{d.Cell, d.Metric, formatDiffFigure(d, d.Before), formatDiffFigure(d, d.After), formatChange(d.Ratio), string(d.Verdict), fmt.Sprintf("%d, %d", d.BeforeTrials, d.AfterTrials)}
}

func formatDiffFigure(d analysis.Difference, v float64) string {
	if d.Metric == matrix.Throughput {
		return format.PerSecond(v) + "/s"
	}
	return format.Micros(v)
}

// formatChange formats a ratio as a percentage, with its interval.
func formatChange(ratio matrix.Figure) string {
	return words.WithInterval(ratio, func(v float64) string { return fmt.Sprintf("%+.1f%%", 100*(v-1)) })
}

// WriteDiff prints one line per difference, and the answer last.
func WriteDiff(w io.Writer, r *DiffReport, terminal format.Terminal) error {
	differences := r.shownDifferences()
	rows := lists.Map(differences, diffRow)
	lines := format.Grid(slices.Insert(rows, 0, r.titles()), func(column int) bool { return column < 2 || column > 3 })
	paint := format.Painter(terminal.Colour)
	var out strings.Builder
	if len(differences) > 0 {
		out.WriteString(paint(format.Bold, lines[0]) + "\n")
	}
	for i, d := range differences {
		style := format.Normal
		switch d.Verdict {
		case compare.Slower, compare.More:
			style = format.Red
		case compare.Faster, compare.Less:
			style = format.Bold
		}
		out.WriteString(paint(style, lines[i+1]) + "\n")
	}
	if len(r.Answer) > 0 {
		if len(differences) > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(strings.Join(r.Answer, "\n") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// WriteDiffMarkdown writes the differences and the answer for a pull request.
func WriteDiffMarkdown(w io.Writer, r *DiffReport) error {
	var out strings.Builder
	writeList(&out, r.Answer)
	out.WriteString("\n" + markdownTable(r.titles(), "llrrlll", lists.Map(r.shownDifferences(), diffRow)))
	_, err := io.WriteString(w, out.String())
	return err
}

// WriteDiffJUnit writes one test per gate and cell, for CI.
func WriteDiffJUnit(w io.Writer, r *DiffReport) error {
	return writeJUnit(w, "wirelab diff", gateTests(r.findings, func(f analysis.GateFinding) string {
		text := describeFinding(f)
		if d := f.Change; d != nil {
			text = fmt.Sprintf("%s %s: from %s to %s", d.Metric, formatChange(d.Ratio), formatDiffFigure(*d, d.Before), formatDiffFigure(*d, d.After))
			if f.Why != "" {
				text += "; " + f.Why
			}
		}
		return text
	}))
}
