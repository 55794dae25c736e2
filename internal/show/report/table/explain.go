package table

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
)

const (
	maxShownParts = 14
	// leastShownStage is the share of a call's time from which a stage has a row of its own.
	leastShownStage = 0.002
)

// WriteExplanation prints the figures behind an explanation's sentences.
func WriteExplanation(w io.Writer, e *insight.Explanation) error {
	var out strings.Builder
	for _, s := range e.Stages {
		writeParts(&out, e, "Where a call's time goes, by stage"+describeCallCount(e.Of), s, true)
		writeMeasuredMeans(&out, e)
	}
	for _, i := range e.Cells() {
		writeTail(&out, i)
	}
	for _, cpu := range e.CPU {
		inside := e.Of.End(cpu.End)
		title := fmt.Sprintf("CPU time per call, %s, by category (%d samples%s)", cpu.End, inside.CPU.Samples, describeDepth(inside))
		writeParts(&out, e, title, cpu, false)
		writeFunctions(&out, e, cpu.End)
	}
	for _, waits := range e.OffCPU {
		writeParts(&out, e, fmt.Sprintf("Where threads and goroutines wait, per call and all together, %s", waits.End), waits, false)
	}
	writeWaits(&out, e)
	for _, a := range e.Allocations {
		writeAllocation(&out, e, a)
	}
	for _, end := range []string{insight.ClientEnd, insight.ServerEnd} {
		writeChanges(&out, e, "System calls per call, "+end, end, e.Syscalls)
		writeChanges(&out, e, "Counters per call, "+end, end, e.Counters)
	}
	for _, i := range e.Cells() {
		writeProbes(&out, i)
	}
	if len(e.Unobserved) > 0 {
		fmt.Fprintf(&out, "\nNot observed:\n  %s\n", strings.Join(e.Unobserved, "\n  "))
	}
	if len(e.Others) > 0 {
		fmt.Fprintf(&out, "\nNot explained here; name one of these, or two with a comma between them, with --cells:\n  %s\n", strings.Join(e.Others, "\n  "))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeParts(out *strings.Builder, e *insight.Explanation, title string, what insight.ExplainedFigure, inOrder bool) {
	fmt.Fprintf(out, "\n%s\n", title)
	table := newPairTable(out, e)
	parts := what.Parts
	if inOrder && e.Against == nil {
		parts = stageOrder(e.Of.Life, parts)
	}
	sum := func(parts []insight.Change) (all insight.Change) {
		for _, p := range parts {
			all.A, all.B = all.A+p.A, all.B+p.B
		}
		return all
	}
	var others []insight.Change
	for i, p := range parts {
		switch {
		case inOrder && max(math.Abs(p.A), math.Abs(p.B)) < leastShownStage*what.Whole.B, !inOrder && i >= maxShownParts:
			others = append(others, p)
		default:
			table.time(p.Name, p)
		}
	}
	if len(others) > 0 {
		table.time(words.Count(len(others), "other"), sum(others))
	}
	if what.Rest != 0 {
		explained := sum(what.Parts)
		table.time("rest: probe cost and noise", insight.Change{A: what.Whole.A - explained.A, B: what.Whole.B - explained.B})
	}
	table.time("= "+what.Whole.Name, what.Whole)
	table.end()
}

// writeMeasuredMeans prints the means of the measured trials. The probes ran in other trials.
func writeMeasuredMeans(out *strings.Builder, e *insight.Explanation) {
	if e.Of.Mean == nil || (e.Against != nil && e.Against.Mean == nil) {
		return
	}
	text := ""
	of, against := e.Names()
	if e.Against != nil {
		text = fmt.Sprintf("%s %s, ", against, units.Time(e.Against.Mean.Value*1e3))
	}
	fmt.Fprintf(out, "(measured in separate trials: %s%s %s)\n", text, of, units.Time(e.Of.Mean.Value*1e3))
}

// stageOrder sorts the stages by their order in a call.
func stageOrder(life *insight.Life, parts []insight.Change) []insight.Change {
	ordered := make([]insight.Change, 0, len(parts))
	for _, stage := range life.Stages {
		for _, p := range parts {
			if p.Name == stage.Name {
				ordered = append(ordered, p)
			}
		}
	}
	return ordered
}

func writeChanges(out *strings.Builder, e *insight.Explanation, title, end string, all []insight.Change) {
	var of []insight.Change
	for _, c := range all {
		const least = 0.005 // smallest value that is printed as 0.01
		if c.End == end && (c.A >= least || c.B >= least) {
			of = append(of, c)
		}
	}
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	table := newPairTable(out, e)
	for _, c := range of[:min(len(of), maxShownParts)] {
		table.row(c.Name, units.Number, c)
	}
	table.end()
}

// writeWaits prints what calls wait for in the server's own functions.
func writeWaits(out *strings.Builder, e *insight.Explanation) {
	if len(e.Waits) == 0 {
		return
	}
	fmt.Fprintf(out, "\nWhat calls wait for in the server's own functions\n")
	table := newPairTable(out, e)
	for _, w := range e.Waits[:min(len(e.Waits), maxShownParts)] {
		table.row(w.Name, words.Micros, w)
	}
	table.end()
}

// writeAllocation prints what an end allocates per call, and the functions that allocate most.
func writeAllocation(out *strings.Builder, e *insight.Explanation, a insight.ExplainedAllocation) {
	fmt.Fprintf(out, "\nHeap allocations per call, %s\n", a.End)
	table := newPairTable(out, e)
	table.row("objects", units.Number, a.Objects)
	table.row("bytes", withMinus(words.Size), a.Bytes)
	const shown = 6
	for _, f := range a.Functions[:min(len(a.Functions), shown)] {
		f.Name = format.ShortFunction(f.Name)
		table.row(f.Name, withMinus(words.Size), f)
	}
	table.end()
}

// writeFunctions prints the functions that take the largest shares of an end's CPU time.
func writeFunctions(out *strings.Builder, e *insight.Explanation, end string) {
	of := slices.DeleteFunc(slices.Clone(e.Functions), func(c insight.Change) bool { return c.End != end })
	slices.SortStableFunc(of, func(a, b insight.Change) int { return cmp.Compare(max(b.A, b.B), max(a.A, a.B)) })
	if len(of) == 0 {
		return
	}
	const shown = 8
	fmt.Fprintf(out, "\nFunctions, %s: share of its CPU time, without the functions that they call\n", end)
	table := newPairTable(out, e)
	for _, f := range of[:min(len(of), shown)] {
		table.row(f.Name, func(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }, f)
	}
	table.end()
}

func writeProbes(out *strings.Builder, i *insight.Insight) {
	of := i.Key()
	if i.Run != "" {
		of = i.Run + ", " + of
	}
	fmt.Fprintf(out, "\nProbes of %s\n", of)
	for _, p := range i.Passes {
		times, cost := (*float64)(nil), ""
		switch {
		case p.Cost != nil:
			times = &p.Cost.Value
		case p.Probe == "life" && i.Life != nil:
			times = i.Life.Cost
		}
		if times != nil {
			cost = fmt.Sprintf("; calls took %s times as long with the probe", units.Number(*times))
		}
		fmt.Fprintf(out, "  %s: %s%s\n", p.Probe, cmp.Or(p.Method, "no measurement"), cost)
		for _, missing := range p.Missing {
			fmt.Fprintf(out, "    missing: %s\n", missing)
		}
	}
}

func describeCallCount(i *insight.Insight) string {
	if i.Life == nil {
		return ""
	}
	text := fmt.Sprintf(" (%d calls", i.Life.Calls)
	if i.Life.Untold > 0 {
		text += fmt.Sprintf(", %d more with unknown stages", i.Life.Untold)
	}
	return text + ")"
}

func describeDepth(i *insight.EndReadings) string {
	cpu, text := i.CPU, ""
	if cpu.Depth != nil {
		text += fmt.Sprintf("; average stack depth %.1f above the kernel", *cpu.Depth)
	}
	if d := cpu.Decoding; d != nil {
		text += fmt.Sprintf("; messages are decoded at depth %.1f, for %.1f %% of the time", d.Depth, 100*d.Share)
	}
	return text
}

// A pairTable is a table of one cell, or of two cells and their difference.
type pairTable struct {
	out  *strings.Builder
	to   *tabwriter.Writer
	both bool
}

func newPairTable(out *strings.Builder, e *insight.Explanation) pairTable {
	c := pairTable{out: out, to: tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight), both: e.Against != nil}
	if c.both {
		of, against := e.Names()
		fmt.Fprintf(c.to, "\t%s\t%s\tdifference\t\n", against, of)
	}
	return c
}

func (c pairTable) time(name string, change insight.Change) { c.row(name, signedTime, change) }

// withMinus makes a format of negative values from a format of positive ones.
func withMinus(show func(float64) string) func(float64) string {
	return func(value float64) string {
		if value < 0 {
			return "−" + show(-value)
		}
		return show(value)
	}
}

func (c pairTable) row(name string, show func(float64) string, change insight.Change) {
	if !c.both {
		fmt.Fprintf(c.to, "%s\t%s\t\n", name, show(change.B))
		return
	}
	sign := ""
	if change.Difference() > 0 {
		sign = "+"
	}
	fmt.Fprintf(c.to, "%s\t%s\t%s\t%s%s\t\n", name, show(change.A), show(change.B), sign, show(change.Difference()))
}

func (c pairTable) end() { _ = c.to.Flush() } // a strings.Builder does not fail

// WriteAllocators prints each profiled end's allocations, and the functions that allocate most.
func WriteAllocators(w io.Writer, s *analysis.Summary) error {
	if len(s.Allocations) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nHeap allocations per call, and the functions that allocate most, in profiled trials, which are not measured:")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	part := ""
	for i := range s.Allocations {
		a := &s.Allocations[i]
		if a.Part != part {
			part = a.Part
			fmt.Fprintf(table, "%s\tend\tbytes\tobjects\tby\n", part)
		}
		const shown = 2
		most := lists.Map(a.Functions[:min(len(a.Functions), shown)], func(f insight.Allocator) string {
			return fmt.Sprintf("%s %.0f%%", format.ShortFunction(f.Function), 100*f.Bytes)
		})
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", a.Variant, a.End, format.ByteSize(int(a.Bytes)), format.PlainNumber(a.Objects), strings.Join(most, ", "))
	}
	return table.Flush()
}
