package main

import (
	"encoding/json"
	"fmt"
	"time"

	"wirelab.dev/internal/scenario"
)

// rehearsal is what a run would do.
type rehearsal struct {
	Title     string  `json:"title"`
	Trials    int     `json:"trials"`
	Cells     int     `json:"cells"`
	Seconds   float64 `json:"estimated_seconds"` // on a quiet machine
	Directory string  `json:"directory"`
	Looks     int     `json:"looks,omitempty"`       // of a run that repeats until something stands
	AtMost    int     `json:"trials_most,omitempty"` // then
}

// rehearse says what a job would do, and does nothing.
func (a *app) rehearse(j *job) error {
	plan := planFor(j.scenario, j.until)
	cells := map[string]bool{}
	for _, trial := range plan {
		cells[cellKey(trial.Cell)] = true
	}
	r := rehearsal{Title: j.scenario.Title, Trials: len(plan), Cells: len(cells), Directory: j.output.directory}
	r.Seconds = newEstimate(plan, nil).remaining().Seconds()
	if r.Directory == "" {
		r.Directory = j.unnamed(time.Now())
	}
	if u := j.until; u != nil {
		last := *u
		last.Begun = len(u.Looks)
		r.Looks, r.AtMost = len(u.Looks), len(planFor(j.scenario, &last))
	}
	if j.output.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(a.stdout, "%s\n%d trials of %d cells, about %v on a quiet machine, into %s\n", r.Title, r.Trials, r.Cells, took, r.Directory)
	if r.Looks > 0 {
		fmt.Fprintf(a.stdout, "repeats until %s: at most %d looks and %d trials\n", sayGoal(j.until), r.Looks, r.AtMost)
	}
	for _, warning := range j.warnings {
		fmt.Fprintf(a.stdout, "warning: %s\n", warning)
	}
	return nil
}

// cellKey tells cells apart.
func cellKey(c scenario.Cell) string { return fmt.Sprint(c) }
