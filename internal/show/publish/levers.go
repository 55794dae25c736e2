package publish

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// A LeverReport says which levers move a cell, from the runs that tried them.
type LeverReport struct{ runs []*report.Run }

// NewLeverReport makes a report of the run that tried levers one by one, and perhaps of the run that
// tried two together.
func NewLeverReport(runs []*report.Run) LeverReport { return LeverReport{runs} }

func (r LeverReport) tests() (all []compare.LeverTest) {
	for _, run := range r.runs {
		all = append(all, run.Summary.Levers...)
	}
	return all
}

func (r LeverReport) answer() []string {
	return advice.Levers(lists.Map(r.runs, func(run *report.Run) *analysis.Summary { return run.Summary })...)
}

// MarshalJSON writes the tests as in --json of a run, the answer, and the runs' directories.
func (r LeverReport) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	err := report.WriteIndented(&out, struct {
		Levers []compare.LeverTest `json:"levers"`
		Answer []string            `json:"answer"`
		Runs   []string            `json:"runs"`
	}{r.tests(), r.answer(), lists.Map(r.runs, func(run *report.Run) string { return run.Directory })})
	return out.Bytes(), err
}

// Write prints the effects of all levers, and the answer last.
func (r LeverReport) Write(w io.Writer) error {
	terminal := format.TerminalOf(w)
	var out strings.Builder
	if err := table.WriteLevers(&out, r.tests()); err != nil {
		return err
	}
	out.WriteByte('\n')
	for _, run := range r.runs {
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
