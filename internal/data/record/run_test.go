package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
)

// sample is a record with something in every kind of field.
func sample(trial int) Record {
	figure, cpu := 0.5, int64(1234)
	return Record{
		Version: Version, Trial: trial, Repeat: 1,
		Cell: Cell{
			Part: "matrix", Stack: "tcp", Variant: "tcp:buffers=pooled", Place: Place{Workload: "echo", Payload: Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 50}, Connection: "per-worker",
			Load: Load{Model: "closed", RequestsPerClient: 1000},
		},
		Started:  time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC),
		WindowNS: 1e9,
		Measurement: Measurement{
			Requests: 50_000, Completed: 50_000,
			Service: latency.Distribution{Count: 50_000, Sum: 1e9, Min: 1, Max: 1e6},
		},
		Errors: []ErrorCount{{Code: "Unavailable", Count: 3, Example: "a line\nand \"another\""}},
		Client: Process{UserNS: &cpu, SystemNS: &cpu},
		Checks: []Check{{Name: "errors", Level: OK, Figure: &figure, Detail: "none"}},
	}
}

// begin creates a run of ten trials and records the first of them.
func begin(t testing.TB, recorded int) *Run {
	t.Helper()
	m := Manifest{Name: "test", Scenario: json.RawMessage(`{"name":"test"}`), Host: json.RawMessage(`{}`), Trials: 10}
	for trial := range 10 {
		m.Order = append(m.Order, PlannedTrial{Trial: trial, Repeat: 1, Cell: sample(trial).Cell.Key()})
	}
	r, err := Create(filepath.Join(t.TempDir(), "run"), m)
	if err != nil {
		t.Fatal(err)
	}
	for trial := range recorded {
		if err := r.Append(sample(trial)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func finish(t testing.TB, r *Run) {
	t.Helper()
	if err := r.Finish(Interrupted); err != nil {
		t.Fatal(err)
	}
}

func trials(t testing.TB, r *Run) []int {
	t.Helper()
	var found []int
	for record, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, record.Trial)
	}
	return found
}

// Runs that begin at once under one name get a directory each.
func TestRunsOfOneNameGetADirectoryEach(t *testing.T) {
	folder := t.TempDir()
	const runs = 20
	made := make(chan string, runs)
	for range runs {
		go func() {
			r, err := CreateFree(filepath.Join(folder, "runs", "compare"), Manifest{Name: "compare"})
			if err != nil {
				t.Error(err)
				made <- ""
				return
			}
			if err := r.Finish(Done); err != nil {
				t.Error(err)
			}
			made <- filepath.Base(r.Dir) // only now: the folder ends with the test
		}()
	}
	var got []string
	for range runs {
		got = append(got, <-made)
	}
	slices.Sort(got)
	want := []string{"compare"}
	for n := 2; n <= runs; n++ {
		want = append(want, fmt.Sprintf("compare-%d", n))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the directories are %q, want %q", got, want)
	}

	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := CreateFree(filepath.Join(folder, "file", "compare"), Manifest{}); err == nil {
		t.Errorf("a run is in %s, in what is no folder", r.Dir)
	}
}

func TestRunComesBackAsItWasWritten(t *testing.T) {
	w := begin(t, 3)
	if got := trials(t, w); !reflect.DeepEqual(got, []int{0, 1, 2}) {
		t.Errorf("the writer reads trials %v of its own run", got)
	}
	w.Manifest.Warnings = append(w.Manifest.Warnings, "no priority")
	finish(t, w)

	r, err := Open(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Manifest; m.Status != Interrupted || m.Ended == nil || m.Version != Version || m.Warnings[0] != "no priority" || len(m.Order) != 10 {
		t.Errorf("manifest %+v", m)
	}
	for record, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if want := sample(record.Trial); !reflect.DeepEqual(record, want) {
			t.Errorf("got\n%+v\nwant\n%+v", record, want)
		}
	}
	if left := remaining(r); len(left) != 7 || left[0].Trial != 3 {
		t.Errorf("remaining %v, want trials 3 to 9", left)
	}
	if len(r.Warnings) != 0 {
		t.Errorf("warnings %v", r.Warnings)
	}
	if err := r.Append(sample(3)); err == nil {
		t.Error("a run opened for reading was written")
	}
}

// remaining is the part of the plan that has no record.
func remaining(r *Run) []PlannedTrial {
	return slices.DeleteFunc(slices.Clone(r.Manifest.Order), func(p PlannedTrial) bool { return r.Done(p.Trial) })
}

func TestResumeGoesOn(t *testing.T) {
	w := begin(t, 3)
	finish(t, w)
	r, err := Resume(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Done(2) || r.Done(3) {
		t.Errorf("done(2) %v, done(3) %v", r.Done(2), r.Done(3))
	}
	if meanwhile, err := Open(w.Dir); err != nil || meanwhile.Manifest.Status != Running || meanwhile.Manifest.Ended != nil {
		t.Errorf("while it is written: %+v, %v", meanwhile, err)
	}
	for _, planned := range remaining(r) {
		if err := r.Append(sample(planned.Trial)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Finish(Done); err != nil {
		t.Fatal(err)
	}
	done, err := Open(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := trials(t, done); len(got) != 10 || len(remaining(done)) != 0 || done.Manifest.Status != Done {
		t.Errorf("trials %v, status %s", got, done.Manifest.Status)
	}
}

func TestOnlyOneWriter(t *testing.T) {
	t.Parallel()
	w := begin(t, 1)
	if _, err := Resume(w.Dir); !errors.Is(err, errLocked) {
		t.Errorf("a second writer: %v", err)
	}
	if _, err := Create(w.Dir, Manifest{}); !errors.Is(err, errLocked) {
		t.Errorf("a second run in it: %v", err)
	}
	finish(t, w)
	if _, err := Create(w.Dir, Manifest{}); err == nil || !strings.Contains(err.Error(), "already holds a run") {
		t.Errorf("a second run in it: %v", err)
	}
	if err := w.Append(sample(1)); err == nil {
		t.Error("a finished run was written")
	}
	if err := w.Finish(Done); err == nil {
		t.Error("a run was finished twice")
	}
}

func TestNoRunDirectory(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := Open(dir); !errors.Is(err, errNoRun) {
			t.Errorf("Open: %v", err)
		}
		if _, err := Resume(dir); !errors.Is(err, errNoRun) {
			t.Errorf("Resume: %v", err)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	w := begin(t, 1)
	defer finish(t, w)
	if err := w.Append(sample(0)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a trial twice: %v", err)
	}
	if err := w.Append(sample(-1)); err == nil {
		t.Error("trial -1 was taken")
	}
	nan := sample(1)
	nan.InFlight = math.NaN()
	if err := w.Append(nan); err == nil {
		t.Error("a figure that is none was taken")
	}
	if err := w.Append(sample(1)); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

// A write that fails half-way, as on a full disk, must not leave a line that
// the next record is joined to.
func TestAppendThatFailsLeavesTheFileAsItWas(t *testing.T) {
	w := begin(t, 2)
	whole := w.records.file
	readOnly, err := os.Open(w.path(recordsFile))
	if err != nil {
		t.Fatal(err)
	}
	w.records.file = readOnly
	if err := w.Append(sample(2)); err == nil || w.records.broken == nil {
		t.Fatalf("a write and a cut that fail: %v, broken %v", err, w.records.broken)
	}
	w.records.file = whole
	if err := w.Append(sample(2)); !errors.Is(err, w.records.broken) {
		t.Errorf("a broken run was written: %v", err)
	}
	w.records.broken = nil
	if _, err := whole.WriteString(`{"half`); err != nil {
		t.Fatal(err)
	}
	if err := whole.Truncate(w.records.end); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(sample(2)); err != nil {
		t.Fatal(err)
	}
	if got := trials(t, w); len(got) != 3 {
		t.Errorf("trials %v, want three", got)
	}
	finish(t, w)
	if err := readOnly.Close(); err != nil {
		t.Fatal(err)
	}
}

// Whatever of the last line a killed process got onto the disk, the lines
// before it are read, and the run can go on.
func TestEveryCutOfTheLastLine(t *testing.T) {
	t.Parallel()
	w := begin(t, 3)
	finish(t, w)
	records := w.path(recordsFile)
	whole, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := last + 1; cut < len(whole); cut++ {
		if err := os.WriteFile(records, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(w.Dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if got := trials(t, r); len(got) != 2 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "line 3 is half written") {
			t.Fatalf("cut at %d: trials %v, warnings %v", cut, got, r.Warnings)
		}
		if (cut-last)%97 != 1 {
			continue // Resume syncs twice: not at every byte
		}
		again, err := Resume(w.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Append(sample(2)); err != nil {
			t.Fatal(err)
		}
		finish(t, again)
		if now, err := os.ReadFile(records); err != nil || !bytes.Equal(now, whole) {
			t.Fatalf("cut at %d: the run that went on differs from the whole one: %v", cut, err)
		}
	}
}

// A power cut can leave a whole line's length without its content.
func TestLastLineOfZeros(t *testing.T) {
	w := begin(t, 2)
	if _, err := w.records.file.Write(append(make([]byte, 500), '\n')); err != nil {
		t.Fatal(err)
	}
	finish(t, w)
	r, err := Resume(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := trials(t, r); len(got) != 2 || len(r.Warnings) != 1 {
		t.Errorf("trials %v, warnings %v", got, r.Warnings)
	}
	finish(t, r)
}

func TestDamageNamesTheLine(t *testing.T) {
	line := func(trial int) string {
		text, err := json.Marshal(sample(trial))
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	for name, test := range map[string]struct{ records, says string }{
		"garbage before the end": {line(0) + "garbage\n" + line(1), "records.jsonl: line 2: the line is not JSON"},
		"half a line and on":     {line(0) + line(1)[:99] + line(2) + line(3), "line 2: the line is not JSON"},
		"an empty line":          {line(0) + "\n" + line(1), "line 2: the line is not JSON"},
		"a newer version":        {line(0) + strings.Replace(line(1), `"version":1`, `"version":7`, 1), "line 2: the version is 7, but this program reads versions up to 1"},
		"newer in other ways":    {`{"version":2,"trial":"three"}` + "\n", "line 1: the version is 2"},
		"no version":             {"{}\n" + line(0), "line 1: the version is missing"},
		"another type":           {line(0) + `{"version":1,"trial":"three"}` + "\n", "line 2: the line is not a record"},
		"a list":                 {"[]\n", "line 1: the line is not a record"},
		"a trial twice":          {line(0) + line(1) + line(0), "line 3: trial 0 is already in line 1"},
		"a negative trial":       {line(0) + line(-1), "line 2: the trial number is -1"},
	} {
		w := begin(t, 0)
		if _, err := w.records.file.WriteString(test.records); err != nil {
			t.Fatal(err)
		}
		finish(t, w)
		if _, err := Open(w.Dir); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: Open: %v; want %q", name, err, test.says)
		}
		if _, err := Resume(w.Dir); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: Resume: %v; want %q", name, err, test.says)
		}
		after, err := os.ReadFile(w.path(recordsFile))
		if err != nil || string(after) != test.records {
			t.Errorf("%s: a damaged file was changed: %v", name, err)
		}
	}
}

func TestManifestThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct{ manifest, says string }{
		"damaged":      {"{\n  \"version\": 1,\n  !\n}\n", "manifest.json: line 3, column 3: the file is damaged"},
		"cut off":      {"{\n  \"version\": 1,\n", "line 2, column 16"},
		"another type": {"{\n  \"version\": 1,\n  \"trials\": \"ten\"\n}\n", "line 3"},
		"newer":        {"{\n  \"version\": 9\n}\n", "manifest.json: line 2: the version is 9, but this program reads versions up to 1"},
		"no version":   {"{}\n", "line 1: the version is missing"},
	} {
		w := begin(t, 1)
		finish(t, w)
		if err := os.WriteFile(w.path(manifestFile), []byte(test.manifest), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(w.Dir); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want %q", name, err, test.says)
		}
	}
}

func TestLongestLine(t *testing.T) {
	t.Parallel()
	endless := zeros{}
	for _, err := range readLines(endless) {
		if err == nil || !strings.Contains(err.Error(), "line 1: the record is longer than 64 MiB") {
			t.Errorf("an endless line: %v", err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestKey(t *testing.T) {
	for _, test := range []struct {
		request, response int
		want              string
	}{
		{64, 64, "matrix/tcp:buffers=pooled/echo/64B/c=50"},
		{65536, 65536, "matrix/tcp:buffers=pooled/echo/64KiB/c=50"},
		{1 << 20, 1 << 20, "matrix/tcp:buffers=pooled/echo/1MiB/c=50"},
		{0, 4096, "matrix/tcp:buffers=pooled/echo/0B-4KiB/c=50"},
		{1536, 1536, "matrix/tcp:buffers=pooled/echo/1536B/c=50"},
	} {
		c := sample(0).Cell
		c.RequestBytes, c.ResponseBytes = test.request, test.response
		if got := c.Key(); got != test.want {
			t.Errorf("key %s, want %s", got, test.want)
		}
	}
}

func TestValidity(t *testing.T) {
	r := sample(0)
	if !r.Valid() || r.Failed() != 3 || r.ThroughputPerSecond() != 49_997 {
		t.Errorf("valid %v, failed %d, %v a second", r.Valid(), r.Failed(), r.ThroughputPerSecond())
	}
	r.Checks = append(r.Checks, Check{Name: "schedule", Level: Warning}, Check{Name: "steal", Level: Unknown})
	if !r.Valid() {
		t.Error("a warning made the trial invalid")
	}
	r.Checks = append(r.Checks, Check{Name: "little", Level: Invalid})
	if r.Valid() {
		t.Error("an invalid check left the trial valid")
	}
	if failed := (&Record{Failure: "the server died"}); failed.Valid() || failed.ThroughputPerSecond() != 0 {
		t.Error("a trial without a measurement is valid")
	}
	if ns, ok := r.Client.CPUNS(); !ok || ns != 2468 {
		t.Errorf("client CPU %d, %v", ns, ok)
	}
	if _, ok := r.Server.CPUNS(); ok {
		t.Error("an unknown CPU time is known")
	}
}

func BenchmarkRecords(b *testing.B) {
	w := begin(b, 10)
	defer finish(b, w)
	for b.Loop() {
		for _, err := range w.Records() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestReplanIsOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run, err := Create(dir, Manifest{Trials: 1, Until: &Until{Looks: []InterimLook{{Repeats: 3, Level: 0.02}, {Repeats: 5, Level: 0.03}}, Begun: 1}})
	if err != nil {
		t.Fatal(err)
	}
	run.Manifest.Until.Begun = 2
	if err := run.Replan(make([]PlannedTrial, 2)); err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(dir)
	if err != nil || m.Trials != 2 || len(m.Order) != 2 || m.Until.Begun != 2 || m.Status != Running {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestUntilChecksWhatWasRead(t *testing.T) {
	good := func() Until {
		return Until{Looks: []InterimLook{{Repeats: 3, Level: 0.02}, {Repeats: 5, Level: 0.03}}, Begun: 2}
	}
	for name, damage := range map[string]func(*Until){
		"":                   func(*Until) {},
		"no look has begun":  func(u *Until) { u.Begun = 0 },
		"too many have":      func(u *Until) { u.Begun = 3 },
		"no level":           func(u *Until) { u.Looks[0].Level = 0 },
		"more than there is": func(u *Until) { u.Looks[0].Level = 0.06 },
		"no repeats":         func(u *Until) { u.Looks[0].Repeats = 0 },
		"out of order":       func(u *Until) { u.Looks[1].Repeats = 3 },
	} {
		u := good()
		damage(&u)
		if err := u.Check(); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNewestRunsOfAFolder(t *testing.T) {
	folder := t.TempDir()
	for i, name := range []string{"old", "new", "no-manifest", "no-records"} {
		run, err := Create(filepath.Join(folder, name), Manifest{})
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Finish(Done); err != nil {
			t.Fatal(err)
		}
		written := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(run.path(manifestFile), written, written); err != nil {
			t.Fatal(err)
		}
	}
	for _, gone := range []string{"no-manifest/" + manifestFile, "no-records/" + recordsFile} {
		if err := os.Remove(filepath.Join(folder, gone)); err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int][]string{5: {"new", "old"}, 1: {"new"}} {
		for i := range want {
			want[i] = filepath.Join(folder, want[i])
		}
		if got := Newest(folder, most, 1<<20); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if got := slices.Concat(Newest(folder, 5, 10), Newest(folder+"/not-there", 5, 1<<20)); len(got) > 0 {
		t.Errorf("too large, or not there: %v", got)
	}
}

// TestWhatCannotBeIndexedIsRefused: a file may say what it likes.
func TestWhatCannotBeIndexedIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`"server":{"seen":{"method":"m","stacks":{"unit":"ns","samples":1,"frames":[{"function":"f"}],"stacks":[{"frames":[1],"weight":1,"count":1}]}}}`: "function 1, but the record lists 1 functions",
		`"client":{"seen":{"method":"m","stacks":{"unit":"ns","samples":1,"stacks":[{"frames":[-1]}]}}}`:                                                 "function -1, but the record lists 0 functions",
		`"life":{"method":"m","stages":["handler"],"calls":[[1],[1,2]]}`:                                                                                 "a call has 2 stages, but the record names 1 stages",
		`"life":{"method":"m","stages":["handler"],"calls":[[1],[2]],"begins_ns":[0]}`:                                                                   "the stages of 2 calls, but the begins of 1 calls",
		`"life":{"stages":["a","b"],"calls":[[1,2],[1]]}`:                                                                                                "a call has 1 stages",
	} {
		if _, err := decodeRecord([]byte(`{"version":1,` + text + `}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}
