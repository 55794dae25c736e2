package record

import (
	"encoding/json"
	"time"
)

// Manifest is what a run set out to do and where, written before its first
// trial and again when it ends.
type Manifest struct {
	Version  int             `json:"version"`
	Tool     string          `json:"tool"` // wirelab's version
	Name     string          `json:"name"` // the scenario's
	Title    string          `json:"title,omitempty"`
	Question string          `json:"question,omitempty"`
	Command  []string        `json:"command"`
	Started  time.Time       `json:"started"`
	Ended    *time.Time      `json:"ended,omitempty"`
	Status   Status          `json:"status"`
	Seed     uint64          `json:"seed"`
	Trials   int             `json:"trials"` // planned
	Order    []PlannedTrial  `json:"order"`  // in the order of execution
	Scenario json.RawMessage `json:"scenario"`
	// Declarations are what stacks and workloads say of themselves for the
	// report: scenario.Declarations. Runs of older versions have none.
	Declarations json.RawMessage `json:"declarations,omitempty"`
	Host         json.RawMessage `json:"host"` // host.Info
	Warnings     []string        `json:"warnings,omitempty"`
}

// PlannedTrial is a line of the plan.
type PlannedTrial struct {
	Trial  int    `json:"trial"`
	Repeat int    `json:"repeat"`
	Cell   string `json:"cell"` // Cell.Key
}

// Status is how far a run has come.
type Status string

// The states of a run. One that was killed stays Running: it is a valid
// shorter run, and can be resumed.
const (
	Running     Status = "running"
	Done        Status = "done"
	Interrupted Status = "interrupted"
	Failed      Status = "failed"
)
