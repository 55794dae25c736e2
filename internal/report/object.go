package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"wirelab.dev/internal/advice"
	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
)

// ObjectVersion is the form of the JSON object. It grows when a name changes
// its meaning or goes away, not when one is added.
const ObjectVersion = 1

// Object is what --json prints: a run in a form that programs may rely on. It
// is documented in docs/json.md, and docs/schema/compare.schema.json is made
// from it. Its parts are the types of package analysis, whose tags name them.
type Object struct {
	Version     int                     `json:"version"`                                                                 // of this form
	Name        string                  `json:"name"`                                                                    // of the scenario
	Status      record.Status           `json:"status" jsonschema:"enum=running,enum=done,enum=interrupted,enum=failed"` // how far the run has come
	Partial     bool                    `json:"partial"`                                                                 // fewer trials were done than planned
	Seed        uint64                  `json:"seed"`                                                                    // what the order of the trials was shuffled from
	Trials      TrialCounts             `json:"trials"`
	Cells       []Cell                  `json:"cells"`
	Comparisons []analysis.Comparison   `json:"comparisons"`
	Knees       []analysis.Knee         `json:"knees"`
	Crossovers  []analysis.Crossover    `json:"crossovers"`
	Limits      []analysis.LimitEffect  `json:"limits"`
	WarmUps     []analysis.WarmUpNeed   `json:"warm_ups"`
	Contrasts   []analysis.Contrast     `json:"contrasts"`
	Scalings    []analysis.Scaling      `json:"scalings"`       // how throughput follows the calls in flight
	Claims      []analysis.Claim        `json:"claims"`         // of the scenario, and whether they hold here
	Allocations []analysis.Allocation   `json:"allocations"`    // where an end's heap allocations come from
	Settings    []analysis.Setting      `json:"settings"`       // that are not a library's default
	Machine     []analysis.MachineLimit `json:"machine_limits"` // those of the machine that a trial could have run into
	Advice      []string                `json:"advice"`         // in words, most important first
	Warnings    []string                `json:"warnings"`       // of the whole run
	Directory   string                  `json:"directory"`      // where the run lies

	Rejudged *analysis.Rejudged `json:"rejudged,omitempty"` // absent where every trial is judged as when it was measured
}

// TrialCounts says how many trials there were.
type TrialCounts struct {
	Planned int `json:"planned"`
	Done    int `json:"done"`
	Invalid int `json:"invalid"` // failed a check of validity
	Failed  int `json:"failed"`  // gave no measurement
}

// Cell is one point of the matrix, over its valid trials. Times are in
// microseconds. A figure is null where there is no valid trial.
type Cell struct {
	analysis.Cell
	HasValid      bool     `json:"valid"`                   // at least one trial is valid
	Warnings      []string `json:"warnings"`                // what the checks found, worst first, then what else is worth knowing
	ResponseApart bool     `json:"-" page:"response_apart"` // response_us is not service_us
}

// NewObject puts the run into the form that programs may rely on.
func NewObject(run *Run) *Object {
	s := run.Summary
	object := &Object{
		Version:     ObjectVersion,
		Name:        s.Name,
		Status:      s.Status,
		Partial:     s.Partial(),
		Seed:        s.Seed,
		Trials:      TrialCounts{Planned: s.Planned, Done: s.Done, Invalid: s.Invalid, Failed: s.Failed},
		Comparisons: s.Comparisons,
		Knees:       s.Knees,
		Crossovers:  s.Crossovers,
		Limits:      s.Limits,
		WarmUps:     s.WarmUps,
		Contrasts:   s.Contrasts,
		Scalings:    slices.Clone(s.Scalings),
		Claims:      s.Claims,
		Allocations: s.Allocations,
		Settings:    s.Settings,
		Machine:     s.Machine,
		Advice:      run.Advice,
		Warnings:    s.Warnings,
		Directory:   run.Directory,
		Rejudged:    s.Rejudged,
	}
	for i := range s.Cells {
		object.Cells = append(object.Cells, newCell(&s.Cells[i]))
	}
	for i := range object.Scalings {
		object.Scalings[i].Diagnosis.Text = advice.Bottleneck(object.Scalings[i])
	}
	return object
}

func newCell(c *analysis.Cell) Cell {
	cell := Cell{Cell: *c, HasValid: c.IsValid(), Warnings: warnings(c), ResponseApart: c.Response != nil}
	cell.Response = response(c)
	return cell
}

// response is the time from the intended send, which is the service time where
// the two are the same.
func response(c *analysis.Cell) *analysis.Latencies {
	if c.Response != nil {
		return c.Response
	}
	return &c.Service
}

// warnings tells what is wrong with a cell, worst first.
func warnings(c *analysis.Cell) []string {
	var texts []string
	if c.Failure != "" {
		texts = append(texts, failureHeadline(c)+": "+c.Failure)
	}
	for _, finding := range c.Findings {
		texts = append(texts, findingText(finding, c.Trials))
	}
	if text, differs := unachieved(c); differs {
		texts = append(texts, connectionsNote+": "+text)
	}
	return append(texts, c.Warnings...)
}

// failureHeadline tells whether what failed were all trials of the cell.
func failureHeadline(c *analysis.Cell) string {
	if c.IsValid() {
		return "a trial gave no measurement"
	}
	return "no measurement"
}

func findingText(f analysis.Finding, trials int) string {
	var text strings.Builder
	switch f.Level {
	case record.Invalid:
		text.WriteString("invalid, ")
	case record.Unknown:
		text.WriteString("not known, ")
	}
	text.WriteString(f.Name)
	if trials > 1 {
		fmt.Fprintf(&text, " (%d of %d trials)", f.Trials, trials)
	}
	text.WriteString(": " + f.Detail)
	return text.String()
}

// WriteJSON prints the run as one [Object], indented.
func WriteJSON(w io.Writer, run *Run) error {
	data, err := encode(NewObject(run), forPrograms)
	if err != nil {
		return fmt.Errorf("report: encoding JSON: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return fmt.Errorf("report: encoding JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}
