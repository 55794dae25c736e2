package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/run/plan"
)

// twoStacks compares two stacks at a point.
func twoStacks(t *testing.T) *scenario.Scenario {
	t.Helper()
	c := compareFlags{stacks: []string{"tcp,grpc"}, sizes: []string{"64"}, clients: []int{1}, trialFlags: trialFlags{duration: time.Second, repeats: 3}, workload: "echo"}
	s, err := c.scenario()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// measured makes the run of a scenario's first look. grpc takes ratio times as long as tcp, and
// each repeat has noise.
func measured(t *testing.T, u *record.Until, ratio, noise float64) *record.Run {
	t.Helper()
	run, err := record.Create(filepath.Join(t.TempDir(), "run"), record.Manifest{Until: u})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range plan.Trials(twoStacks(t), u) {
		mean := 1e5 * math.Exp(noise*float64(i*i%5))
		if p.Cell.Variant.Stack == "grpc" {
			mean *= ratio
		}
		r := record.Record{Trial: i, Repeat: p.Repeat, TookNS: int64(time.Second), WindowNS: 1e9, Cell: record.Cell{
			Part: "compare", Variant: p.Cell.Variant.String(), Place: record.Place{Clients: 1}, Load: record.Load{Model: "burst"}, // whose books the judge does not ask for
		}}
		r.Service = latency.Distribution{Count: 1000, Sum: int64(1000 * mean), Min: 1, Max: 1e9}
		if err := run.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

func TestALookEndsTheRunOrGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		until        record.Until
		ratio, noise float64
		ended, says  string
	}{
		"plain":         {record.Until{}, 3, 0.001, "answered", "look 1 of at most 6, after 3 repeats: 1 of 1 comparisons decided\n"},
		"not yet":       {record.Until{}, 1.1, 0.1, "", "0 of 1 comparisons decided; measuring 2 cells again"},
		"known well":    {record.Until{Width: 0.03}, 3, 0.001, "answered", "2 of 2 means known within 3 %"},
		"badly":         {record.Until{Width: 0.03}, 3, 0.1, "", "0 of 2 means known within 3 %; continuing to 5 repeats"},
		"time is left":  {record.Until{TimeNS: int64(15 * time.Second)}, 1.1, 0.1, "", "measuring 2 cells again"},
		"no time":       {record.Until{TimeNS: int64(14 * time.Second)}, 1.1, 0.1, "time", "its time is too short for 5 repeats"},
		"all repeats":   {record.Until{Looks: matrix.PlanLooks(3, 3)}, 1.1, 0.1, "repeats", "look 1 of at most 1, after 3 repeats: 0 of 1"},
		"no comparison": {record.Until{}, 0, 0, "nothing", "0 of 0"},
	} {
		u := c.until
		if u.Begun = 1; u.Looks == nil {
			u.Looks = matrix.PlanLooks(3, 30)
		}
		var said bytes.Buffer
		run := measured(t, &u, c.ratio, c.noise)
		if c.ratio == 0 { // of no trial at all
			var err error
			if run, err = record.Create(filepath.Join(t.TempDir(), "run"), record.Manifest{Until: &u}); err != nil {
				t.Fatal(err)
			}
		}
		looks, errGoesOn := 0, errors.New("the run goes on")
		course := plan.LookSeries{
			Run: run, Scenario: twoStacks(t), Limits: patient(), Say: func(line string) { fmt.Fprintln(&said, line) },
			MeasureTrials: func([]scenario.PlannedCell) error {
				if looks++; looks > 1 {
					return errGoesOn
				}
				return nil
			},
		}
		err := course.Measure()
		goesOn := errors.Is(err, errGoesOn)
		if goesOn {
			err = nil
		}
		if err != nil || goesOn != (c.ended == "") || u.Ended != c.ended || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: goes on %v, ended %q, %v; it said %q", name, goesOn, u.Ended, err, said.String())
		}
		if look := u.Looks[0]; look.Open == nil || look.Of == nil {
			t.Errorf("%s: the look is kept as %+v", name, look)
		}
	}
}

// What a run found at a look is judged by that look's level whoever reads it.
func TestAReportAllowsForTheLooks(t *testing.T) {
	verdictAt := func(u *record.Until) compare.Comparison {
		t.Helper()
		run := measured(t, u, 1.2, 0.02)
		if err := run.Finish(record.Done); err != nil {
			t.Fatal(err)
		}
		a := &app{limits: patient()}
		seen, err := a.readRun(run.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return seen.Summary.Comparisons[0]
	}
	once := verdictAt(nil)
	looked := verdictAt(&record.Until{Looks: matrix.PlanLooks(3, 30), Begun: 1})
	if once.Pairs != 3 || looked.Pairs != 3 || looked.P < 1.9*once.P && looked.P < 1 {
		t.Errorf("at half of the level P is %v of %d pairs, and at all of it %v", looked.P, looked.Pairs, once.P)
	}
	width := func(c compare.Comparison) float64 { return math.Log(c.Ratio.Interval.High / c.Ratio.Interval.Low) }
	if got := width(looked) / width(once); got < 1.3 || looked.Ratio.Interval.Confidence != 0.95 {
		t.Errorf("the interval is %.1f times as wide, and holds the truth with %v", got, looked.Ratio.Interval.Confidence)
	}
}

// A run that is stopped at a look goes on with it, and with what it repeats for.
func TestCtrlCAndResumeOfARepeatedRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs trials for some seconds (-short)")
	}
	directory := filepath.Join(t.TempDir(), "out")
	s := start(t, "compare", "--stack", "tcp", "--size", "64", "-c", "1", "-z", "50ms", "--warm-up", "20ms", "--until", "0.1%", "--at-most", "4", "-o", directory)
	s.waitFor(t, 1)
	_ = s.Process.Signal(os.Interrupt) // it may have ended, and goes on all the same
	for range s.said {
	}
	_ = s.Wait()
	run, err := record.Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	u := run.Manifest.Until
	if u == nil || len(u.Looks) != 2 || u.Width != 0.001 || u.Begun > 2 {
		t.Fatalf("it keeps %+v", u)
	}
	s = start(t, "run", "--resume", directory, "--verbose")
	for range s.said {
	}
	_ = s.Wait() // a busy machine may leave no valid trial
	if run, err = record.Open(directory); err != nil {
		t.Fatal(err)
	}
	if u = run.Manifest.Until; u.Ended == "" || run.Manifest.Trials != u.Looks[u.Begun-1].Repeats || run.Manifest.Status != record.Done {
		t.Errorf("it ended as %+v, after %d trials, %s", u, run.Manifest.Trials, run.Manifest.Status)
	}
	for trial := range run.Manifest.Trials {
		if !run.Done(trial) {
			t.Errorf("trial %d was not done", trial)
		}
	}
	wantSays(t, "the report", s.stdout.String(), "Repeated until each mean was known within 0.1 %")
}
