package main

import (
	"fmt"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/plan"
)

// rehearse says what a job would do, without doing it. For a run that would be continued it says
// what is left.
func (a *app) rehearse(j *job) error {
	run, until, err := j.earlier()
	if err != nil {
		return err
	}
	r := plan.Rehearse(j.scenario, until, run, j.output.directory)
	if j.output.json {
		return a.printJSON(r)
	}
	took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintln(a.stdout, r.Title)
	if r.Done > 0 {
		fmt.Fprintf(a.stdout, "%d trials are done, and left are ", r.Done)
	}
	fmt.Fprintf(a.stdout, "%d trials of %d cells, about %v on a quiet machine, into %s\n", r.Trials, r.Cells, took, r.Directory)
	if r.Looks > 0 {
		fmt.Fprintf(a.stdout, "repeats until %s: at most %d looks and %d trials\n", plan.DescribeGoal(until), r.Looks, r.AtMost)
	}
	for _, warning := range j.warnings {
		fmt.Fprintf(a.stdout, "warning: %s\n", warning)
	}
	return nil
}

// earlier returns the run that a job would continue, and its looks. A directory that
// holds a run which the job would not continue is an error, as it would be for the job.
func (j *job) earlier() (*record.Run, *record.Until, error) {
	if j.resume {
		run, err := record.Open(j.output.directory)
		if err != nil {
			return nil, nil, usage(fmt.Errorf("--resume: %w", err))
		}
		return run, run.Manifest.Until, nil
	}
	if _, err := record.ReadManifest(j.output.directory); err == nil && j.output.directory != "" {
		return nil, nil, usage(fmt.Errorf("-o: %s already holds a run: choose another directory, or continue it with `wirelab run --resume %s`", j.output.directory, j.output.directory))
	}
	return nil, j.until, nil
}
