package selftest

import (
	"context"
	"encoding/json"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
)

// other is a second wirelab, which measures until it is told to stop. It is ready when its
// window is open.
type other struct {
	Worker []string `json:"worker"`
	Folder string   `json:"folder"` // for its run
}

func (o *other) play(ctx context.Context, ready func(string)) error {
	s, err := cell{load: closedFor(10 * time.Second)}.scenario()
	if err != nil {
		return err
	}
	run, err := createRun(o.Folder, s)
	if err != nil {
		return err
	}
	l := lab.New(o.Worker)
	l.Observers = []live.Observer{(&Stage{inWindow: []func(){func() { ready("") }}}).observe}
	err = l.Run(ctx, s.Plan(), run)
	if ctx.Err() != nil {
		err = nil
	}
	return err
}

// createRun makes a run for the trials of a scenario.
func createRun(directory string, s *scenario.Scenario) (*record.Run, error) {
	plan := s.Plan()
	return record.Create(directory, record.Manifest{
		Version: record.Version, Name: s.Name, Status: record.Running, Seed: s.Seed, Started: time.Now(),
		Trials: len(plan), Order: lab.Order(plan), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
	})
}
