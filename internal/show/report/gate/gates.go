// Package gate shows the outcomes of gates on a run, changes since an earlier run, and the
// outcomes of claims: on a terminal, as JUnit for CI, and as Markdown for pull requests.
//
// The outcomes come from package analysis. This package only prints them.
package gate

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// A Run holds a run whose gates were judged.
type Run struct {
	Summary *analysis.Summary
	Answer  []string // a few short lines
	Gates   []analysis.GateFinding
	Since   *DiffReport // differences from an earlier run; nil without one
}

// WriteGates prints one line per gate and cell: the condition, the finding, and the outcome.
func WriteGates(w io.Writer, run *Run) error {
	var out strings.Builder
	for _, f := range run.Gates {
		outcome := string(f.Outcome)
		if f.Outcome == analysis.GateBreached {
			outcome = strings.ToUpper(outcome)
		}
		fmt.Fprintf(&out, "%-*s  %s\n", len(analysis.GateOpen), outcome, run.DescribeGate(f))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// NotKept describes the gates that are breached, and names those that cannot tell. A text is empty if
// there are none.
func (r *Run) NotKept() (breached, open string) {
	var breaches, names []string
	for _, f := range r.Gates {
		switch f.Outcome {
		case analysis.GateBreached:
			breaches = append(breaches, r.DescribeGate(f))
		case analysis.GateOpen:
			names = append(names, f.Gate)
		}
	}
	if len(breaches) > 0 {
		breached = "breached: " + strings.Join(breaches, "; ")
	}
	if len(names) > 0 {
		open = "cannot tell: " + strings.Join(slices.Compact(names), ", ")
	}
	return breached, open
}

// DescribeGate returns the condition and its finding, and the cell if the run has several.
func (r *Run) DescribeGate(f analysis.GateFinding) string {
	asked := f.Gate
	if len(r.Summary.Cells) > 1 {
		asked += " in " + f.Cell
	}
	return asked + ": " + describeFinding(f)
}

// describeFinding describes the figure, and the reason why the gate cannot tell.
func describeFinding(f analysis.GateFinding) string {
	if !format.Finite(f.Found.Value) {
		return f.Why
	}
	text := words.WithInterval(f.Found, func(v float64) string { return formatGateFigure(f.Unit, v) }) + ", of " + words.Count(f.Windows, "window")
	if f.Why != "" {
		text += "; " + f.Why
	}
	return text
}

func formatGateFigure(unit analysis.Unit, value float64) string {
	switch unit {
	case analysis.Microseconds:
		return format.Micros(value)
	case analysis.PerSecond:
		return format.PerSecond(value) + "/s"
	case analysis.Requests:
		return words.Count(int(value), "request")
	case analysis.Share:
		return units.Percent(value)
	case analysis.Relative:
		return formatChange(matrix.Figure{Value: value})
	default:
		return format.PlainNumber(value)
	}
}

// WriteLoadJUnit writes one test per cell for its measurement, and one per gate in it.
func WriteLoadJUnit(w io.Writer, run *Run) error {
	var tests []junitTest
	for i := range run.Summary.Cells {
		c := &run.Summary.Cells[i]
		one := junitTest{Name: c.Key, Class: "measurement"}
		passes := func(f analysis.GateFinding) bool { return f.Cell == c.Key && f.Passes }
		switch message := (&junitMessage{invalidReason(c)}); {
		case c.IsValid():
		case c.Spoiled > 0 && slices.ContainsFunc(run.Gates, passes):
			one.Skipped = message
		default:
			one.Error = message
		}
		tests = append(tests, one)
	}
	return writeJUnit(w, "wirelab load", append(tests, gateTests(run.Gates, describeFinding)...))
}

func gateTests(findings []analysis.GateFinding, say func(analysis.GateFinding) string) []junitTest {
	var tests []junitTest
	for _, f := range findings {
		one := junitTest{Name: f.Cell, Class: f.Gate}
		switch message := (&junitMessage{say(f)}); f.Outcome {
		case analysis.GateBreached:
			one.Failure = message
		case analysis.GateOpen:
			if f.Passes {
				one.Skipped = message
			} else {
				one.Error = message
			}
		}
		tests = append(tests, one)
	}
	return tests
}

func invalidReason(c *matrix.Cell) string {
	if c.Failure != "" {
		return c.Failure
	}
	if all := table.Warnings(c); len(all) > 0 {
		return all[0]
	}
	return "no trial has ended"
}

// WhyInvalid says why a run has no figures (measured is false then), or which cells have no valid
// trial. It returns "" if all cells have one.
func WhyInvalid(s *analysis.Summary) (reason string, measured bool) {
	if len(s.Cells) == 0 {
		return "", true // the plan has only trials with profiles, which give no figures
	}
	if !slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return c.HasFigures() }) {
		c := &s.Cells[0]
		why := cmp.Or(c.Failure, "no trial of "+c.Key+" has ended")
		if c.Failure == "" && len(c.Findings) > 0 {
			// the first finding is the worst
			why = fmt.Sprintf("%s: %s, %s", c.Key, c.Findings[0].Name, c.Findings[0].Detail)
		}
		return "nothing was measured: " + why, false
	}
	var wrong, disturbed []string // names of cells without a valid trial
	for _, c := range s.Cells {
		switch {
		case c.IsValid():
		case c.Spoiled > 0:
			disturbed = append(disturbed, c.Key)
		default:
			wrong = append(wrong, c.Key)
		}
	}
	var reasons []string
	switch one := len(s.Cells) == 1; {
	case one && len(wrong) > 0:
		return "the measurement is invalid, for the reasons above", true
	case one && len(disturbed) > 0:
		return "the measurement is invalid: other programs disturbed it: measure when the machine is quieter", true
	}
	if len(wrong) > 0 {
		reasons = append(reasons, fmt.Sprintf("no valid trial of %s (see the table for the reasons)", format.FirstNames(wrong, 3)))
	}
	if len(disturbed) > 0 {
		reasons = append(reasons, fmt.Sprintf("no valid trial of %s, because other programs disturbed them: measure when the machine is quieter", format.FirstNames(disturbed, 3)))
	}
	if len(reasons) == 0 {
		return "", true
	}
	return "the measurement is invalid: " + strings.Join(reasons, "; "), true
}

var loadTitles = []string{"clients", "load", "req/s", "mean", "P50", "P99", "max", "errors", "client CPU", "service CPU", "valid"}

// WriteLoadMarkdown writes the figures, the gates and the changes, for a pull request.
func WriteLoadMarkdown(w io.Writer, run *Run) error {
	var out strings.Builder
	fmt.Fprintf(&out, "### %s\n\n", run.Summary.Title)
	cells := table.SortedCells(run.Summary.Cells)
	out.WriteString(markdownTable(loadTitles, "rlrrrrrrrrl", lists.Map(cells, loadRow)))
	for _, c := range cells {
		if !c.IsValid() {
			fmt.Fprintf(&out, "\n**Invalid**, %s: %s\n", table.DescribeClients(c), invalidReason(c))
		}
	}
	for _, c := range cells {
		if parts := table.DescribeBytes(c); len(parts) > 0 {
			fmt.Fprintf(&out, "\nBytes, %s: %s\n", table.DescribeClients(c), strings.Join(parts, "; "))
		}
		if sizes := table.SizesOf(c.Answers); sizes != nil {
			fmt.Fprintf(&out, "\nAnswers, %s: %s\n", table.DescribeClients(c), sizes)
		}
		for _, f := range c.Findings {
			if f.Level == record.Warning {
				fmt.Fprintf(&out, "\n%s, %s: %s\n", f.Name, table.DescribeClients(c), f.Detail)
			}
		}
	}
	if len(run.Gates) > 0 {
		rows := lists.Map(run.Gates, func(f analysis.GateFinding) []string {
			outcome := string(f.Outcome)
			if f.Outcome != analysis.GateKept {
				outcome = "**" + outcome + "**"
			}
			return []string{f.Gate, strconv.Itoa(f.Clients), describeFinding(f), outcome}
		})
		out.WriteString("\n" + markdownTable([]string{"gate", "clients", "found", "outcome"}, "lrll", rows))
	}
	out.WriteByte('\n')
	writeList(&out, run.Answer)
	if run.Since != nil {
		fmt.Fprintf(&out, "\n#### %s\n\n", run.SinceTitle())
		if err := WriteDiffMarkdown(&out, run.Since); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func loadRow(c *matrix.Cell) []string {
	clients := table.ClientCount(c)
	if version := c.Version(); version != "" {
		clients = version + ", " + clients
	}
	return append([]string{clients, table.DescribeLoad(c)},
		table.ColumnValues(c, "req/s", "mean", "P50", "P99", "max", "err", "client", "server", "valid")...)
}

// SinceTitle names the earlier run. If the called servers differ, it names both servers.
func (r *Run) SinceTitle() string {
	text := "Since " + r.Since.Before
	if r.Since.Versions {
		old, now := r.Since.Targets()
		return fmt.Sprintf("%s (%s) against %s (%s)", words.Capitalize(r.Since.After), now, r.Since.Before, old)
	}
	if old, now := r.Since.Targets(); old != "" && old != now {
		text += fmt.Sprintf("  (that run called %s, this run calls %s)", old, now)
	}
	return text
}

type junitTest struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"`   // the gate cannot tell
	Skipped *junitMessage `xml:"skipped,omitempty"` // the gate cannot tell, and passes
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

func writeJUnit(w io.Writer, name string, tests []junitTest) error {
	suite := struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitTest `xml:"testcase"`
	}{Name: name, Tests: len(tests), Cases: tests}
	for _, test := range tests {
		if test.Failure != nil {
			suite.Failures++
		}
		if test.Error != nil {
			suite.Errors++
		}
		if test.Skipped != nil {
			suite.Skipped++
		}
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suite); err != nil {
		return fmt.Errorf("report: encoding JUnit: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// writeList writes a list. A line that begins with two spaces is a command of the item before it.
func writeList(out *strings.Builder, lines []string) {
	for _, line := range lines {
		if command, is := strings.CutPrefix(line, "  "); is {
			out.WriteString("  `" + command + "`\n")
		} else {
			out.WriteString("- " + line + "\n")
		}
	}
}

// markdownTable returns a table. sides has a letter per column: l for texts, r for numbers.
func markdownTable(titles []string, sides string, rows [][]string) string {
	var out strings.Builder
	line := func(cells []string) {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	line(titles)
	marks := map[byte]string{'l': "---", 'r': "---:"}
	line(lists.Map([]byte(sides), func(side byte) string { return marks[side] }))
	for _, row := range rows {
		line(lists.Map(row, func(cell string) string { return strings.ReplaceAll(cell, "|", `\|`) }))
	}
	return out.String()
}
