package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// A Manifest describes the plan of a run and its machine. It is written before the first
// trial and again when the run ends.
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
	Order    []PlannedTrial  `json:"order"`  // as shuffled; a trial that was measured again ran later
	Scenario json.RawMessage `json:"scenario"`
	// Declarations holds the declarations of stacks and workloads for the report:
	// scenario.Declarations. Runs of older versions have none.
	Declarations json.RawMessage `json:"declarations,omitempty"`
	Host         json.RawMessage `json:"host"` // host.Info
	Warnings     []string        `json:"warnings,omitempty"`
	// Until is the goal of the run's repeats. It is absent in a run with a fixed number of
	// repeats.
	Until *Until `json:"until,omitempty"`
	// Fleet selects the agents that measure, if this machine does not.
	Fleet *FleetWanted `json:"fleet,omitempty"`
	// WaitedNS is the time that the run waited for other programs to release the CPUs. It is
	// absent until the run ends, and in older runs.
	WaitedNS *int64 `json:"waited_ns,omitempty"`
}

// Until is the goal of a run's repeats, and the progress towards it.
type Until struct {
	Width  float64       `json:"width,omitempty"`                                                                // until each cell's mean is known so well, 0.03 for 3 %; absent: until every comparison is decided
	Claims bool          `json:"claims,omitempty"`                                                               // until every claim of the scenario stands; the looks say which are still open
	TimeNS int64         `json:"time_ns,omitempty"`                                                              // no repeats are begun that would take longer than this in all; absent: as long as it takes
	Looks  []InterimLook `json:"looks"`                                                                          // all looks that the run may take
	Begun  int           `json:"begun"`                                                                          // looks whose trials have begun; the run is judged by the level of the last one
	Ended  string        `json:"ended,omitempty" jsonschema:"enum=answered,enum=repeats,enum=time,enum=nothing"` // why it goes on no longer: it is answered, has made all repeats, has no time for more, or has nothing valid to look at
}

// The reasons why a run takes no more looks.
const (
	EndedAnswered = "answered" // the goal of its repeats is reached
	EndedRepeats  = "repeats"  // it has made all repeats
	EndedByTime   = "time"     // more repeats would take too long
	EndedNothing  = "nothing"  // more repeats would decide nothing
)

// Check reports a fault in looks that were read from a file.
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

// An InterimLook is an evaluation of a run before its last repeat. The run may end after it.
type InterimLook struct {
	Repeats int     `json:"repeats"`         // the look is taken after this many trials of each cell
	Level   float64 `json:"level"`           // the chance of a false finding that it may use; the levels of all looks add up to 0.05
	Open    *int    `json:"open,omitempty"`  // comparisons that were undecided, or cells not known well enough; absent until the look was taken
	Of      *int    `json:"of,omitempty"`    // the number of all comparisons or cells, decided or not
	Again   []int   `json:"again,omitempty"` // of a run until claims stand: the places of the claims whose cells are repeated for the next look
}

// A PlannedTrial is a line of the plan.
type PlannedTrial struct {
	Trial  int    `json:"trial"`
	Repeat int    `json:"repeat"`
	Cell   string `json:"cell"` // Cell.Key
}

// Status is the state of a run.
type Status string

// The states of a run. A run that was killed stays Running: it is a valid
// shorter run, and can be resumed.
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

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
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
	line, column := lineColumn(data, offset-1) // both count the byte that they stopped at
	return Manifest{}, fmt.Errorf("line %d, column %d: the file is damaged: %w", line, column, err)
}

func lineColumn(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset, 0), int64(len(data)))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}
