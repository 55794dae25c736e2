package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/lab"
)

// RunsDirectory holds the runs that are given no directory.
const RunsDirectory = "wirelab-runs"

// Directory returns the directory of a run that is given none, if it is free.
func Directory(name string, now time.Time) string {
	return filepath.Join(RunsDirectory, name+"-"+now.Format("20060102-150405"))
}

// Manifest describes the run of a scenario. Kept is the scenario as the run keeps it. The caller
// adds the tool, the command, the fleet and the warnings.
func Manifest(s, kept *scenario.Scenario, u *record.Until, started time.Time) (record.Manifest, error) {
	order := lab.Order(Trials(s, u))
	m := record.Manifest{
		Version: record.Version, Name: s.Name, Title: s.Title, Question: s.Question,
		Started: started, Status: record.Running, Seed: s.Seed,
		Trials: len(order), Order: order, Until: u,
	}
	var err error
	for _, part := range []struct {
		into  *json.RawMessage
		value any
	}{{&m.Scenario, kept}, {&m.Declarations, declarations(s.Parts)}, {&m.Host, host.Describe()}} {
		if *part.into, err = json.Marshal(part.value); err != nil {
			return m, fmt.Errorf("encode the manifest: %w", err)
		}
	}
	return m, nil
}

// A Rehearsal says what a run would do.
type Rehearsal struct {
	Title     string  `json:"title"`
	Trials    int     `json:"trials"`         // to be measured
	Done      int     `json:"done,omitempty"` // of a run that would be continued
	Cells     int     `json:"cells"`
	Seconds   float64 `json:"estimated_seconds"` // on a quiet machine
	Directory string  `json:"directory"`
	Looks     int     `json:"looks,omitempty"`       // 0: the run has no looks
	AtMost    int     `json:"trials_most,omitempty"` // trials of all looks
}

// Rehearse says what measuring a scenario would do. Run is the run to be continued, or nil.
func Rehearse(s *scenario.Scenario, u *record.Until, run *record.Run, directory string) Rehearsal {
	left := NewEstimate(Trials(s, u), run)
	r := Rehearsal{
		Title: s.Title, Trials: left.All() - left.Done(), Done: left.Done(), Cells: left.OpenCells(),
		Seconds: left.Remaining().Seconds(), Directory: cmp.Or(directory, Directory(s.Name, time.Now())),
	}
	if u != nil {
		r.Looks, r.AtMost = len(u.Looks), len(MostTrials(s, u))
	}
	return r
}
