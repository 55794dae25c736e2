package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/table"
)

// ObjectVersion grows when a name changes its meaning or goes away, not when one is added.
const ObjectVersion = 1

// An Object is the output of --json: a run in a form that programs may rely on.
// docs/json.md documents it, and docs/schema/compare.schema.json is generated
// from it. Its parts are types of package analysis; their tags name the fields.
type Object struct {
	Version int           `json:"version"`                                                                 // of this form
	Name    string        `json:"name"`                                                                    // of the scenario
	Status  record.Status `json:"status" jsonschema:"enum=running,enum=done,enum=interrupted,enum=failed"` // how far the run has come
	Partial bool          `json:"partial"`                                                                 // fewer trials were done than planned
	Seed    uint64        `json:"seed"`                                                                    // what the order of the trials was shuffled from
	Trials  TrialCounts   `json:"trials"`
	Cells   []Cell        `json:"cells"`
	analysis.Results
	Answer    []string `json:"answer"`    // in a few short lines
	Advice    []string `json:"advice"`    // in words, most important first
	Warnings  []string `json:"warnings"`  // of the whole run
	Directory string   `json:"directory"` // where the run lies

	Gates []analysis.GateFinding `json:"gates,omitempty"` // what was asked of the run, cell by cell; absent where nothing was
	Since *analysis.Diff         `json:"since,omitempty"` // how it differs from an earlier run, as `wirelab diff --json` has it; absent without one

	Until    *record.Until      `json:"until,omitempty"`    // what the run repeated for; absent in a run with a fixed number of repeats
	Rejudged *analysis.Rejudged `json:"rejudged,omitempty"` // absent where every trial is judged as when it was measured
}

// TrialCounts says how many trials there were.
type TrialCounts struct {
	Planned int `json:"planned"`
	Done    int `json:"done"`
	Invalid int `json:"invalid"` // failed a check of validity
	Failed  int `json:"failed"`  // gave no measurement

	MeasuredAgain int `json:"measured_again"` // because other programs had spoiled them
	ThrownAway    int `json:"thrown_away"`    // measurements of them
	Spoiled       int `json:"spoiled"`        // by other programs to the end, with nothing else wrong
}

// Cell is one point of the matrix, over its valid trials. Times are in
// microseconds. A figure is null where there is no valid trial.
type Cell struct {
	matrix.Cell
	HasValid      bool     `json:"valid"`                   // at least one trial is valid
	Warnings      []string `json:"warnings"`                // what the checks found, worst first, then what else is worth knowing
	ResponseApart bool     `json:"-" page:"response_apart"` // response_us is not service_us

	// Of a service of the user's own. Other cells have none of it.

	Statuses []table.AnswerStatus `json:"statuses,omitempty"` // of the answers of a service of the user's own; absent of other cells
	Said     string               `json:"-" page:"said"`      // what the service was asked, and over what
	Name     string               `json:"-" page:"name"`      // the same with the number of clients
	Checks   []JudgedCheck        `json:"-" page:"checks"`    // worst first
}

// NewObject puts the run into the form that programs may rely on.
func NewObject(run *Run) *Object {
	s := run.Summary
	object := &Object{
		Version: ObjectVersion, Name: s.Name, Status: s.Status, Partial: s.Partial(), Seed: s.Seed,
		Trials: TrialCounts{
			Planned: s.Planned, Done: s.Done, Invalid: s.Invalid, Failed: s.Failed,
			MeasuredAgain: s.Again.Trials, ThrownAway: s.Again.ThrownAway, Spoiled: s.Again.Spoiled,
		},
		Results: s.Results, Answer: run.Answer, Advice: run.Advice, Warnings: s.Warnings, Directory: run.Directory, Until: s.Until, Rejudged: s.Rejudged,
		Gates: run.Gates,
	}
	if run.Since != nil {
		object.Since = run.Since.Diff
	}
	object.Scalings = slices.Clone(s.Scalings)
	for i := range s.Cells {
		object.Cells = append(object.Cells, newCell(&s.Cells[i]))
	}
	for i := range object.Scalings {
		object.Scalings[i].Diagnosis.Text = advice.Bottleneck(object.Scalings[i])
	}
	return object
}

func newCell(c *matrix.Cell) Cell {
	cell := Cell{Cell: *c, HasValid: c.IsValid(), Warnings: table.Warnings(c), ResponseApart: c.Response != nil}
	cell.Response = c.ResponseTimes()
	if c.Kind().InDetail {
		cell.Statuses, cell.Said, cell.Name = table.NamedStatuses(&c.Cell, c.Statuses), table.DescribeCall(&c.Cell), table.CellName(&c.Cell)
	}
	return cell
}

// WriteJSON prints the run as one [Object], indented.
func WriteJSON(w io.Writer, run *Run) error { return WriteIndented(w, NewObject(run)) }

// WriteIndented prints an object whose figures are like those of [Object].
func WriteIndented[T any](w io.Writer, object T) error {
	data, err := encode(object, forPrograms)
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
