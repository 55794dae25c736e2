package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"wirelab.dev/internal/base/build"
)

// A Manifest describes the plan of a run and its machine. It is written before the first
// trial and again when the run ends.
type Manifest struct {
	Version int    `json:"version"`
	Tool    string `json:"tool"` // version of wirelab
	// Build says which build of wirelab made the run. Runs of older versions have none.
	Build    *build.Info     `json:"build,omitempty"`
	Name     string          `json:"name"` // name of the scenario
	Title    string          `json:"title,omitempty"`
	Question string          `json:"question,omitempty"`
	Command  []string        `json:"command"`
	Started  time.Time       `json:"started"`
	Ended    *time.Time      `json:"ended,omitempty"`
	Status   Status          `json:"status"`
	Seed     uint64          `json:"seed"`
	Trials   int             `json:"trials"` // number of planned trials
	Order    []PlannedTrial  `json:"order"`  // planned order
	Scenario json.RawMessage `json:"scenario"`
	// Declarations describes stacks and workloads for the report (scenario.Declarations). Runs of
	// older versions have none.
	Declarations json.RawMessage `json:"declarations,omitempty"`
	Host         json.RawMessage `json:"host"` // a host.Info
	Warnings     []string        `json:"warnings,omitempty"`
	// Forecast says, in one sentence, how small a difference the run can tell at the noise of earlier
	// runs. It is absent if nothing is compared.
	Forecast string `json:"forecast,omitempty"`
	// Until is the condition that ends the run's repeats. It is absent if the number is fixed.
	Until *Until `json:"until,omitempty"`
	// Fleet selects the agents that measure. It is absent if this machine measures.
	Fleet *FleetWanted `json:"fleet,omitempty"`
	// Anchor holds the readings of the anchor before, during and after the trials. Runs of older
	// versions, of a fleet, and with fewer than three repeats have none.
	Anchor []AnchorReading `json:"anchor,omitempty"`
}

// SetBuild notes which build of wirelab makes the run.
func (m *Manifest) SetBuild(b build.Info) { m.Tool, m.Build = b.Version, &b }

// Until is the condition that ends a run's repeats, and the progress towards it. A look is an
// evaluation after some repeats.
type Until struct {
	// Wanted relative precision of each cell's mean, 0.03 for 3 %; absent means that the run ends
	// when every comparison is decided.
	Width float64 `json:"width,omitempty"`
	// Whether the run ends when every claim of the scenario is decided.
	Claims bool `json:"claims,omitempty"`
	// Time limit of the run: no repeats begin that would exceed it; absent means no limit.
	TimeNS int64         `json:"time_ns,omitempty"`
	Looks  []InterimLook `json:"looks"` // all looks that the run may take
	// Number of looks whose trials have begun. The level of a cell's last look applies to the cell.
	Begun int `json:"begun"`
	// Why the run ended: goal reached, all repeats made, time up, or no valid trials left.
	Ended string `json:"ended,omitempty" jsonschema:"enum=answered,enum=repeats,enum=time,enum=nothing"`
}

// The reasons why a run ends its repeats.
const (
	EndedAnswered = "answered" // the goal of the repeats is reached
	EndedRepeats  = "repeats"  // all repeats were made
	EndedByTime   = "time"     // more repeats would exceed the time limit
	EndedNothing  = "nothing"  // more repeats would decide nothing
)

// Check returns an error if looks that were read from a file are wrong.
func (u *Until) Check() error {
	if u.Begun < 1 || u.Begun > len(u.Looks) {
		return fmt.Errorf("the current look is %d, but there are %d looks", u.Begun, len(u.Looks))
	}
	for i, look := range u.Looks {
		if !(look.Level > 0 && look.Level <= 0.05) || look.Repeats < 1 || i > 0 && look.Repeats <= u.Looks[i-1].Repeats {
			return fmt.Errorf("look %d has an invalid number of repeats (%d) or level (%v)", i+1, look.Repeats, look.Level)
		}
	}
	return nil
}

// An InterimLook is an evaluation of a run before its last repeat. The run may end after the look.
type InterimLook struct {
	Repeats int `json:"repeats"` // number of trials of each cell before the look
	// Accepted probability of a false finding at this look; the levels of all looks add up to 0.05.
	Level float64 `json:"level"`
	// Number of undecided comparisons, or of too imprecise cells; absent before the look.
	Open *int `json:"open,omitempty"`
	Of   *int `json:"of,omitempty"` // number of all comparisons or cells
	// What the next look repeats. If the run ends with the claims: indexes of the claims. Otherwise:
	// indexes of the cells, in the order of the first repeat; absent means all cells.
	Again []int `json:"again,omitempty"`
}

// A PlannedTrial is one trial of the plan.
type PlannedTrial struct {
	Trial  int    `json:"trial"`
	Repeat int    `json:"repeat"`
	Cell   string `json:"cell"` // key of the cell (Cell.Key)
	// Block is the same for trials that are measured together; 0: the trial is measured alone.
	Block int `json:"block,omitempty"`
}

// Status is the state of a run.
type Status string

// The states of a run. A killed run stays Running: its trials are valid, and it can be resumed.
const (
	Running     Status = "running"
	Done        Status = "done"
	Interrupted Status = "interrupted"
	Failed      Status = "failed"
)

func writeSynced(name string, data []byte) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func decodeManifest(data []byte) (m Manifest, err error) {
	err = decodeVersioned(data, &m)
	var (
		version  versionError
		syntax   *json.SyntaxError
		mismatch *json.UnmarshalTypeError
		offset   int64
	)
	switch {
	case err == nil:
		return m, nil
	case errors.As(err, &version):
		line, _ := lineColumn(data, int64(bytes.Index(data, []byte(`"version"`))))
		return Manifest{}, fmt.Errorf("line %d: %w", line, err)
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &mismatch):
		offset = mismatch.Offset
	}
	// the decoder's offsets include the byte at which it stopped
	line, column := lineColumn(data, offset-1)
	return Manifest{}, fmt.Errorf("line %d, column %d: the file is damaged: %w", line, column, err)
}

func lineColumn(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}
