package plan

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/machine/host"
)

// keepRun makes a finished run of two cells with five repeats, on a machine.
func keepRun(t *testing.T, directory string, machine host.Info) (cells []record.Cell) {
	t.Helper()
	described, err := json.Marshal(machine)
	if err != nil {
		t.Fatal(err)
	}
	run, err := record.Create(directory, record.Manifest{Started: time.Now(), Host: described})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		cell := record.Cell{Part: "compare", Variant: []string{"tcp", "grpc"}[i%2], Place: record.Place{Workload: "echo", Clients: 1}, Load: record.Load{Model: "closed"}}
		cells = append(cells, cell)
		run.Manifest.Order = append(run.Manifest.Order, record.PlannedTrial{Trial: i, Repeat: 1 + i/2, Cell: cell.Key()})
		r := record.Record{Trial: i, Repeat: 1 + i/2, Cell: cell, WindowNS: 1e9}
		r.Service = latency.Distribution{Count: 1000, Sum: int64(1e8 * math.Exp(0.01*float64(i*i%7))), Min: 1, Max: 1e9}
		if err := run.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Finish(record.Done); err != nil {
		t.Fatal(err)
	}
	return cells
}

// Runs that are damaged, or of another machine, neither stop a run nor tell of its noise.
func TestOutlookLooksAtEarlierRunsOfThisMachine(t *testing.T) {
	t.Chdir(t.TempDir())
	foreign := host.Describe()
	foreign.CPUModel += " of another machine"
	cells := keepRun(t, "wirelab-runs/foreign", foreign)
	for name, files := range map[string][2]string{
		"no-json":    {"{", ""},
		"no-host":    {`{"version": 1, "host": 5}`, ""},
		"newer":      {`{"version": 9}`, ""},
		"no-records": {`{"version": 1}`, ""},
		"odd":        {`{"version": 1}`, "{}\n{}\n"},
	} {
		directory := filepath.Join("wirelab-runs", name)
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		for i, file := range []string{"manifest.json", "records.jsonl"} {
			if name == "no-records" && i == 1 {
				continue
			}
			if err := os.WriteFile(filepath.Join(directory, file), []byte(files[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	says := func(cells []record.Cell, want string) {
		t.Helper()
		if got := DescribeOutlook(compare.Planned{Cells: cells}, []string{"out", "wirelab-runs"}); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	says(cells, "One run with 3 repeats or more will show")
	says(cells[:1], "") // nothing is compared

	keepRun(t, "wirelab-runs/here", host.Describe())
	says(cells, "With 5 repeats this machine can tell ")
	keepRun(t, "out/beside", host.Describe())
	says(cells, "With 5 repeats this machine can tell ")
	for i := range cells {
		cells[i].Clients = 50
	}
	says(cells, "With 5 repeats this machine can tell ")
}
