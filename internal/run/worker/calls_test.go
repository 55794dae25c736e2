package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
)

// The bytes are those of docs/worker-contract.md.
func TestACallIsReadAsThePageSays(t *testing.T) {
	written := slices.Concat(
		[]byte{1, 0, 0, 0, 0, 0, 0, 0}, []byte{2, 1, 0, 0, 0, 0, 0, 0}, []byte{3, 0, 1, 0, 0, 0, 0, 0},
		[]byte{4, 0, 0, 0}, []byte{5, 0, 0, 0},
	)
	want := load.JournalCall{Due: 1, Sent: 258, Ended: 65539, Caller: 4, Failure: 5}
	if call := parseJournalCall([journalCallBytes]byte(written)); call != want {
		t.Errorf("read %+v, want %+v", call, want)
	}
}

func TestCallsFilesThatAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(path, bytes.Repeat([]byte{0}, 2*journalCallBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]struct {
		path  string
		count int64
	}{
		"the spec has no calls_file": {"", 1},
		"want 0 to":                  {path, 1 << 40},
		"reports -1 calls":           {path, -1},
		"65 bytes: want 2":           {path, 2},
		"no such file":               {path + "x", 2},
		"65 bytes: want 3 call":      {path, 3},
	} {
		if _, err := readCalls(c.path, c.count); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want something of %q", c, err, says)
		}
	}
}

func TestCallsBeforeSlicesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(path, make([]byte, journalCallBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Client: &ClientSpec{Clients: 1, CallsFile: path, Block: true, Load: Load{Model: scenario.Closed, DurationNS: 10}}}
	r := &ClientResult{EndNS: 10, CallsWritten: 1}
	if err := r.computeFromCalls(spec, nil); err == nil || !strings.Contains(err.Error(), "before it got its slices") {
		t.Errorf("a result without slices: %v", err)
	}
}

// Whatever a worker writes, working it out ends in a result or in an error.
func FuzzWorkOut(f *testing.F) {
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 8), int64(0), int64(10), true, false)
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 8), int64(4), int64(20), true, true)
	f.Fuzz(func(t *testing.T, content []byte, begin, end int64, timed, block bool) {
		path := filepath.Join(t.TempDir(), "calls")
		content = content[:len(content)/journalCallBytes*journalCallBytes]
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		spec := Spec{Client: &ClientSpec{Clients: 2, CallsFile: path, Load: Load{Model: scenario.Closed, RequestsPerClient: 3}}}
		if timed {
			spec.Client.Load = Load{Model: scenario.Closed, DurationNS: 10}
		}
		var turns []load.Slice
		if spec.Client.Block = block; block {
			turns = []load.Slice{{Send: 2, From: 4, To: 9}, {Send: 12, From: 15, To: 20}}
		}
		r := &ClientResult{BeginNS: begin, EndNS: end, CallsWritten: int64(len(content) / journalCallBytes)}
		if err := r.computeFromCalls(spec, turns); err == nil && r.CallsWritten > 0 && r.Service.Count != r.Requests {
			t.Errorf("%d requests and %d service times", r.Requests, r.Service.Count)
		}
	})
}
