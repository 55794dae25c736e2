package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/table"
)

// ObjectVersion grows when a name changes its meaning or is removed. New names do not change it.
const ObjectVersion = 1

// An Object is the output of --json: a run in a form for programs. docs/json.md documents it, and
// docs/schema/compare.schema.json is generated from it. Its parts are types of package analysis;
// their tags name the fields.
type Object struct {
	Version int           `json:"version"`                                                                 // version of this format
	Name    string        `json:"name"`                                                                    // name of the scenario
	Status  record.Status `json:"status" jsonschema:"enum=running,enum=done,enum=interrupted,enum=failed"` // state of the run
	Partial bool          `json:"partial"`                                                                 // true if fewer trials were done than planned
	Seed    uint64        `json:"seed"`                                                                    // seed of the shuffled order of trials
	Trials  TrialCounts   `json:"trials"`
	Cells   []Cell        `json:"cells"`
	analysis.Results
	Leads     []rank.Lead `json:"leads"`                // which variant is best by the mean at which points, with the grade and the evidence; empty if the run does not compare variants
	Answer    []string    `json:"answer"`               // a few short lines
	Advice    []string    `json:"advice"`               // sentences, most important first
	Warnings  []string    `json:"warnings"`             // warnings about the whole run
	Directory string      `json:"directory"`            // directory of the run
	Build     *build.Info `json:"build,omitempty"`      // build of wirelab that made the run; absent for runs of older versions
	LeverRuns []string    `json:"lever_runs,omitempty"` // directories of the runs that tried levers after a comparison; absent without --try
	Forecast  string      `json:"forecast"`             // how small a difference the run could tell, at the noise of earlier runs; empty if nothing is compared

	Gates []analysis.GateFinding `json:"gates,omitempty"` // outcomes of gates, cell by cell; absent without gates
	Since *analysis.Diff         `json:"since,omitempty"` // differences from an earlier run, as in `wirelab diff --json`; absent without one

	Until    *record.Until            `json:"until,omitempty"`    // goal of the repeats; absent in a run with a fixed number of repeats
	Rejudged *analysis.RejudgedChecks `json:"rejudged,omitempty"` // trials that this version judges differently; absent if there are none
}

// TrialCounts counts trials.
type TrialCounts struct {
	Planned int `json:"planned"`
	Done    int `json:"done"`
	Invalid int `json:"invalid"` // trials that failed a check
	Failed  int `json:"failed"`  // trials without a measurement
	Spoiled int `json:"spoiled"` // trials that are invalid only because of other programs
}

// Cell is one point of the matrix, over its valid trials. Times are in microseconds. Figures are
// null if no trial is valid.
type Cell struct {
	matrix.Cell
	HasValid      bool     `json:"valid"`                   // at least one trial is valid
	Warnings      []string `json:"warnings"`                // findings of checks, worst first; then other remarks
	ResponseApart bool     `json:"-" page:"response_apart"` // response_us differs from service_us

	// The following fields are set only for a service of the user's own.

	Statuses    []table.AnswerStatus `json:"statuses,omitempty"` // statuses of the service's answers; absent unless a user's own service was called
	Answers     *table.AnswerSizes   `json:"answers,omitempty"`  // sizes of the service's answers; absent if none is known
	Facts       []table.Fact         `json:"-" page:"facts"`     // more about the calls, in words
	Description string               `json:"-" page:"said"`      // the request and the protocol
	Name        string               `json:"-" page:"name"`      // request, protocol and number of clients
	Checks      []JudgedCheck        `json:"-" page:"checks"`    // results of checks, worst first
}

// NewObject converts the run to the form for programs.
func NewObject(run *Run) *Object {
	s := run.Summary
	object := &Object{
		Version: ObjectVersion, Name: s.Name, Status: s.Status, Partial: s.IsPartial(), Seed: s.Seed,
		Trials:  TrialCounts{Planned: s.Planned, Done: s.Done, Invalid: s.Invalid, Failed: s.Failed, Spoiled: s.Spoiled},
		Results: s.Results, Leads: rank.MainLeads(s), Answer: run.Answer, Advice: run.Advice, Warnings: s.Warnings, Directory: run.Directory, Forecast: s.Forecast, Until: s.Until, Rejudged: s.Rejudged, Build: s.Build,
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
		cell.Statuses, cell.Description, cell.Name = table.NamedStatuses(&c.Cell, c.Statuses), table.DescribeCall(&c.Cell), table.CellName(&c.Cell)
		if b := c.Bytes; b != nil && b.Calls > 0 {
			cell.Payload = record.Payload{RequestBytes: int(b.SentBodyBytes / b.Calls), ResponseBytes: int(b.ReceivedBodyBytes / b.Calls)}
		}
		cell.Answers, cell.Facts = table.SizesOf(c.Answers), table.FactsOf(c)
	}
	return cell
}

// WriteJSON prints the run as one [Object], indented.
func WriteJSON(w io.Writer, run *Run) error { return WriteIndented(w, NewObject(run)) }

// WriteIndented prints an object with figures in the form of [Object].
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
