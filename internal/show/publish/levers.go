package publish

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// A LeverReport says which levers move a cell, from the runs that tried them: one run that tried them
// one by one, and perhaps one that tried two together.
type LeverReport struct {
	Explained *insight.Explanation // why the cell is slow; nil if that is unknown
	Runs      []*report.Run
}

func (r LeverReport) tests() (all []compare.LeverTest) {
	for _, run := range r.Runs {
		all = append(all, run.Summary.Levers...)
	}
	return all
}

func (r LeverReport) answer() []string {
	return advice.Levers(r.Explained, lists.Map(r.Runs, func(run *report.Run) *analysis.Summary { return run.Summary })...)
}

// A LeverObject is the form of a LeverReport for programs.
type LeverObject struct {
	Levers []compare.LeverTest `json:"levers"`
	Answer []string            `json:"answer"` // a few short lines
	Runs   []string            `json:"runs"`   // directories of the runs that tried the levers
}

// MarshalJSON writes the tests as in --json of a run, the answer, and the runs' directories.
func (r LeverReport) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	err := report.WriteIndented(&out, LeverObject{r.tests(), r.answer(), r.directories()})
	return out.Bytes(), err
}

func (r LeverReport) directories() []string {
	return lists.Map(r.Runs, func(run *report.Run) string { return run.Directory })
}

// WriteJSONAfter writes the object of the comparison whose cell the levers shall move, with the tests
// and with the answer to both.
func (r LeverReport) WriteJSONAfter(w io.Writer, comparison *report.Run) error {
	object := report.NewObject(comparison)
	if len(r.Runs) > 0 {
		object.Levers, object.Answer, object.LeverRuns = r.tests(), append(slices.Clone(object.Answer), r.answer()...), r.directories()
	}
	return report.WriteIndented(w, object)
}

// Write prints the effects of all levers, and the answer last.
func (r LeverReport) Write(w io.Writer) error {
	terminal := format.TerminalOf(w)
	var out strings.Builder
	if err := table.WriteLevers(&out, r.tests()); err != nil {
		return err
	}
	out.WriteByte('\n')
	for _, run := range r.Runs {
		if page := PagePath(run); page != "" {
			fmt.Fprintf(&out, "Report: %s\n", page)
		}
	}
	for _, line := range r.answer() {
		format.Wrap(&out, line, format.LayoutOf(line, terminal))
	}
	_, err := io.WriteString(w, terminal.Encode(out.String()))
	return err
}
