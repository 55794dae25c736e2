package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/gate"
)

// keptRun is a run of three valid trials that is read, and never measured again.
const keptRun = "testdata/kept"

// concluded judges the kept run as load does, with gates, and returns the words that it prints and
// the error with its exit code.
func concluded(t *testing.T, flags gateFlags, alone error) (words string, err error) {
	t.Helper()
	return concludedOf(t, keptRun, flags, alone)
}

func concludedOf(t *testing.T, run string, flags gateFlags, alone error) (words string, err error) {
	t.Helper()
	a := &app{stdout: io.Discard, stderr: io.Discard, limits: patient()}
	gates, err := flags.read(a, partsOf(3, scenario.Closed), false)
	if err != nil {
		return "", usageError(err)
	}
	seen, err := a.readRun(run)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := errors.Join(gates.judge(seen, record.Done), gates.write(a, seen, &out)); err != nil {
		t.Fatal(err)
	}
	return out.String(), runError(seen, alone)
}

// threefold is the kept run with each of its trials three times, as if repeated.
func threefold(t *testing.T) (directory string) {
	t.Helper()
	directory = t.TempDir()
	var manifest map[string]any
	var order []any
	var records bytes.Buffer
	if err := json.Unmarshal([]byte(readAll(t, keptRun, "manifest.json")), &manifest); err != nil {
		t.Fatal(err)
	}
	later := func(object any, repeat int) map[string]any {
		again := maps.Clone(object.(map[string]any))
		again["repeat"], again["trial"] = repeat+1, again["trial"].(float64)+float64(1000*repeat)
		return again
	}
	for repeat := range 3 {
		for _, planned := range manifest["order"].([]any) {
			order = append(order, later(planned, repeat))
		}
		for line := range strings.Lines(readAll(t, keptRun, "records.jsonl")) {
			var r any
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if err := json.NewEncoder(&records).Encode(later(r, repeat)); err != nil {
				t.Fatal(err)
			}
		}
	}
	manifest["order"], manifest["trials"] = order, len(order)
	var anchor []record.AnchorReading
	for range 3 {
		anchor = append(anchor, record.AnchorReading{Clients: 16, MeanNS: 25e3, CPUNS: 20e3})
	}
	manifest["anchor"] = anchor
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"manifest.json": text, "records.jsonl": records.Bytes()} {
		if err := os.WriteFile(filepath.Join(directory, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func partsOf(repeats int, model scenario.LoadModel) []scenario.Part {
	return []scenario.Part{{Repeats: repeats, Load: scenario.Load{Model: model}}}
}

func codeOf(err error) int {
	if exit, is := errors.AsType[exitError](err); is {
		return exit.code
	}
	return exitDone
}

func TestGatesDecideTheExitCode(t *testing.T) {
	invalid := exitError{exitInvalid, errors.New("the measurement is invalid")}
	for _, c := range []struct {
		name  string
		gates []string
		alone error
		want  int
		says  string // in the error
	}{
		{"kept", []string{"p50>1h", "errors>0", "rps<0.001"}, nil, exitDone, ""},
		{"breached", []string{"p50>1h", "p50>1ns"}, nil, exitBreached, "breached: p50>1ns"},
		{"without a figure", []string{"p99.99>1h"}, nil, exitInvalid, "cannot tell: p99.99>1h"},
		{"breached, and one without a figure", []string{"p99.99>1h", "mean>1ns"}, nil, exitBreached, "cannot tell: p99.99>1h"},
		{"invalid", []string{"p50>1h"}, invalid, exitInvalid, "the measurement is invalid"},
		{"invalid and breached", []string{"p50>1ns"}, invalid, exitBreached, "breached: p50>1ns"},
		{"nothing asked", nil, nil, exitDone, ""},
	} {
		_, err := concluded(t, gateFlags{failIf: c.gates}, c.alone)
		if codeOf(err) != c.want || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: exit code %d, %v: want %d, %q", c.name, codeOf(err), err, c.want, c.says)
		}
	}
}

// A run against itself has not changed, and gates of both kinds stand in one list.
func TestGatesOfBothKinds(t *testing.T) {
	before := threefold(t)
	words, err := concludedOf(t, before, gateFlags{failIf: []string{"mean>+50%", "p50>1h"}, baseline: before}, nil)
	if err != nil {
		t.Errorf("it ends with %v", err)
	}
	for _, want := range []string{"kept         mean>+50%", "kept         p50>1h", "Since " + before + ":"} {
		if !strings.Contains(words, want) {
			t.Errorf("it lacks %q:\n%s", want, words)
		}
	}
}

// A run that did not change breaches a gate that asks for a change.
func TestABreachedChange(t *testing.T) {
	before := threefold(t)
	words, err := concludedOf(t, before, gateFlags{failIf: []string{"mean>-10%"}, baseline: before}, nil)
	if codeOf(err) != exitBreached || !strings.Contains(words, "BREACHED     mean>-10%") {
		t.Errorf("it ends with %v:\n%s", err, words)
	}
}

// With --undecided pass a gate that cannot tell passes, and one that is breached does not.
func TestUndecidedGatesPass(t *testing.T) {
	flags := gateFlags{failIf: []string{"p99.99>1h"}, undecided: undecidedPasses}
	if words, err := concluded(t, flags, nil); err != nil || !strings.Contains(words, "cannot tell  p99.99>1h in ") {
		t.Errorf("it ends with %v:\n%s", err, words)
	}
	flags.failIf = append(flags.failIf, "p50>1ns")
	if _, err := concluded(t, flags, nil); codeOf(err) != exitBreached {
		t.Errorf("it ends with %v", err)
	}
}

// Only other programs may be the reason why a run without valid trials passes.
func TestUndecidedPassesNoFaults(t *testing.T) {
	asked := gates{conditions: make([]analysis.Condition, 1), undecided: undecidedPasses}
	spoiled, faulty := matrix.Cell{Spoiled: 1}, matrix.Cell{}
	if !asked.passInvalid(&analysis.Summary{Cells: []matrix.Cell{spoiled}}) {
		t.Error("a run that other programs spoiled does not pass")
	}
	if asked.passInvalid(&analysis.Summary{Cells: []matrix.Cell{spoiled, faulty}}) {
		t.Error("a run with a fault of its own passes")
	}
	asked.undecided = undecidedFails
	if asked.passInvalid(&analysis.Summary{Cells: []matrix.Cell{spoiled}}) {
		t.Error("a run passes without --undecided pass")
	}
}

// What could never be judged is refused before anything is measured.
func TestGatesThatCouldNotFail(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: io.Discard, limits: patient()}
	for _, c := range []struct {
		flags   gateFlags
		repeats int
		model   scenario.LoadModel
		want    string
	}{
		{gateFlags{failIf: []string{"p99>+10%"}}, 3, scenario.Closed, "name the earlier run with --baseline"},
		{gateFlags{failIf: []string{"p99>+10%"}, baseline: keptRun}, 1, scenario.Closed, "add --repeat 3"},
		{gateFlags{failIf: []string{"p99>+10%"}, baseline: keptRun}, 3, scenario.Closed, "has only 1 valid windows of"},
		{gateFlags{failIf: []string{"rps<-10%"}, baseline: keptRun}, 3, scenario.Open, "the throughput of this load cannot be compared"},
		{gateFlags{failIf: []string{"kept<100"}}, 1, scenario.Closed, "only a load with --goal has the figure kept"},
		{gateFlags{baseline: "nowhere"}, 1, scenario.Closed, "--baseline: "},
		{gateFlags{junit: "nowhere/at/all.xml"}, 1, scenario.Closed, "--junit nowhere/at/all.xml: the directory nowhere/at"},
		{gateFlags{junit: "a", markdown: "a"}, 1, scenario.Closed, "both name a"},
	} {
		_, err := c.flags.read(a, partsOf(c.repeats, c.model), false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.flags, err, c.want)
		}
	}
	undecided := gateFlags{failIf: []string{"p99>+10%"}, baseline: keptRun, undecided: undecidedPasses}
	if _, err := undecided.read(a, partsOf(3, scenario.Closed), false); err != nil {
		t.Errorf("a noisy baseline stops a load that may end undecided: %v", err)
	}
}

// The files are written whatever comes of the gates.
func TestGatesAreWritten(t *testing.T) {
	folder := t.TempDir()
	flags := gateFlags{failIf: []string{"p50>1ns"}, junit: filepath.Join(folder, "load.xml"), markdown: filepath.Join(folder, "load.md")}
	if _, err := concluded(t, flags, nil); codeOf(err) != exitBreached {
		t.Fatalf("it ends with %v", err)
	}
	for file, want := range map[string]string{flags.junit: "<failure message=", flags.markdown: "**breached**"} {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q: %v\n%s", file, want, err, text)
		}
	}
	a, out := &app{}, bytes.Buffer{}
	a.stdout = &out
	gates := &gates{files: map[string]func(io.Writer, *gate.Run) error{standardOutput: gate.WriteLoadJUnit}}
	if err := gates.write(a, &report.Run{Summary: &analysis.Summary{}}, io.Discard); err != nil || !strings.HasPrefix(out.String(), "<?xml") {
		t.Errorf("- has %q, %v", out.String(), err)
	}
}
