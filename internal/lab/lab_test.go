package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/worker"
)

// TestMain makes the test's program a worker too: the lab starts real
// processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		if err := worker.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func newLab(t *testing.T) *Lab {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New([]string{program, "worker"})
}

func oneCell(t *testing.T, stacks string) *scenario.Scenario {
	t.Helper()
	variants, err := scenario.ParseVariants(stacks)
	if err != nil {
		t.Fatal(err)
	}
	return &scenario.Scenario{
		Version: scenario.Version, Name: "test", Seed: 1,
		Parts: []scenario.Part{{
			Name: "part", Stacks: variants, Workload: "echo", Sizes: []scenario.Size{64}, Clients: []int{4}, Repeats: 1,
			Load:   scenario.Load{Model: scenario.Closed, Requests: 100},
			WarmUp: scenario.WarmUp{AtMost: scenario.Duration(200 * time.Millisecond)},
		}},
	}
}

// runAll carries the scenario out in a directory of its own and returns the
// records.
func runAll(t *testing.T, l *Lab, s *scenario.Scenario) []record.Record {
	t.Helper()
	plan := NewPlan(s)
	run, err := record.Create(t.TempDir(), record.Manifest{
		Version: record.Version, Name: s.Name, Status: record.Running, Seed: s.Seed, Started: time.Now(),
		Trials: len(plan.Trials), Order: plan.Manifested(), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context(), plan, run); err != nil {
		t.Fatal(err)
	}
	var records []record.Record
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func TestATrialOverEachStack(t *testing.T) {
	for _, r := range runAll(t, newLab(t), oneCell(t, "tcp,rest,grpc")) {
		if r.Failure != "" {
			t.Errorf("%s: %s", r.Cell.Key(), r.Failure)
			continue
		}
		if r.Requests != 400 || r.Failed() != 0 {
			t.Errorf("%s: %d requests, %v failed; want 400 and none", r.Cell.Key(), r.Requests, r.Errors)
		}
		if os.Getenv("WIRELAB_SHOW") != "" {
			text, _ := json.MarshalIndent(r, "", " ")
			t.Logf("%s", text)
		}
	}
}
