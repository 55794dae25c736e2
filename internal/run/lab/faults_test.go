package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// wantNoWorkers fails where a process that this one started still runs.
func wantNoWorkers(t *testing.T) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if fields := strings.Fields(string(rest)); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			t.Errorf("still running: %s", stat)
		}
	}
}

// whenMeasuring calls a function when the first window of a trial is open.
func whenMeasuring(do func()) []live.Observer {
	return []live.Observer{func(e live.Event) {
		if p, is := e.(live.Progress); is && !p.Warming {
			do()
		}
	}}
}

// A worker that dies in the middle of the window is named, with its last words,
// and the run goes on.
func TestAWorkerThatDies(t *testing.T) {
	takesSeconds(t)
	for _, role := range []string{"server", "client"} {
		t.Run(role, func(t *testing.T) {
			// On a busy machine the worker may come to its death after the window:
			// then the next has more time.
			for window := 600 * time.Millisecond; !wantDeath(t, role, window); window *= 2 {
				if window > time.Minute {
					t.Fatalf("the %s did not die within %v", role, window)
				}
			}
			wantNoWorkers(t)
		})
	}
}

// wantDeath measures two variants. A worker of one of them dies. It reports whether
// the worker died in the window.
func wantDeath(t *testing.T, role string, window time.Duration) (died bool) {
	t.Helper()
	const doomed = "tcp:buffers=pooled"
	l := newLab(t)
	omen := filepath.Join(t.TempDir(), "omen")
	l.Worker = []string{l.Worker[0], "mortal-worker", role, doomed, omen}
	l.Observers = whenMeasuring(func() { _ = os.WriteFile(omen, nil, 0o600) })
	s := oneCell(t, "tcp,"+doomed)
	s.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(window)}
	records := runAll(t, l, s)
	if len(records) != 2 {
		t.Fatalf("%d records, want 2", len(records))
	}
	for _, r := range records {
		if r.Cell.Variant != doomed {
			if r.Failure != "" || r.Completed == 0 {
				t.Errorf("the other trial: %s", r.Failure)
			}
			continue
		}
		if r.Failure == "" {
			return false
		}
		for _, want := range []string{role + " " + doomed, "exit status 7", "the cellar is flooded"} {
			if !strings.Contains(r.Failure, want) {
				t.Errorf("the failure does not say %q: %s", want, r.Failure)
			}
		}
		wantCheck(t, &r, "measured", record.Invalid)
	}
	return true
}

// A server that stops answering ends the trial with the drain, and not with the
// user's patience: without the drain this test would not end.
func TestAServerThatStopsAnswering(t *testing.T) {
	takesSeconds(t)
	for name, load := range map[string]scenario.Load{
		"bounded by requests": {Model: scenario.Closed, Requests: 100},
		"bounded by time":     {Model: scenario.Closed, Duration: scenario.Duration(300 * time.Millisecond)},
		"open":                {Model: scenario.Open, Rate: 1000, Arrivals: scenario.Poisson, Duration: scenario.Duration(300 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.drain = 500 * time.Millisecond
			s := oneCell(t, "fake:hang-after=100")
			s.Parts[0].Load, s.Parts[0].WarmUp = load, scenario.WarmUp{}
			r := runOne(t, l, s)
			if len(r.Errors) != 1 || r.Errors[0].Code != "Canceled" || r.Errors[0].Count > 4 {
				t.Errorf("errors %+v, want the last calls of at most 4 clients", r.Errors)
			}
			wantCheck(t, r, "errors", record.Invalid)
		})
	}
}

// plainServer is a server as a stranger might write it: it knows the framing of
// docs/wire-tcp.md, a length and then a message, and sends each message back.
func plainServer(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer conn.Close()
				for {
					frame := make([]byte, 4, 1024)
					if _, err := io.ReadFull(conn, frame); err != nil {
						return
					}
					frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
					if _, err := io.ReadFull(conn, frame[4:]); err != nil {
						return
					}
					if _, err := conn.Write(frame); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestAForeignServer(t *testing.T) {
	takesSeconds(t)
	l := newLab(t)
	address := plainServer(t)
	l.Targets = map[string]string{"tcp": address}
	r := runOne(t, l, oneCell(t, "tcp"))
	if r.Requests != 400 || r.Failed() != 0 || r.Cell.Target != address {
		t.Errorf("%d requests, errors %+v, target %q", r.Requests, r.Errors, r.Cell.Target)
	}
	if _, known := r.Server.CPUNS(); known || r.Server.Busy != nil {
		t.Errorf("the cost of a server that wirelab did not start: %+v", r.Server)
	}
	if !strings.Contains(fmt.Sprint(r.Warnings), "the cost of this server is unknown") {
		t.Errorf("warnings %q", r.Warnings)
	}
	wantCheck(t, r, "neighbours", record.Unknown)
	wantCheck(t, r, "connections", record.OK)
}

// What would go wrong in every trial ends the run, and names what to mend.
func TestAMissingWorkerEndsTheRun(t *testing.T) {
	l := New([]string{"/nowhere/wirelab", "worker"})
	s := oneCell(t, "tcp")
	run := create(t, s)
	err := l.Run(t.Context(), s.Plan(), run)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/nowhere/wirelab") {
		t.Errorf("got %v", err)
	}
	if len(recordsOf(t, run)) != 0 {
		t.Error("a trial was recorded")
	}
}

func TestSamplesThatCannotBeWritten(t *testing.T) {
	takesSeconds(t)
	s := oneCell(t, "tcp")
	s.Parts[0].Samples = true
	run := create(t, s)
	samples := filepath.Join(run.Dir, filepath.Dir(run.SamplesFile(0)))
	// A file in the folder's place stops even root.
	if err := errors.Join(os.RemoveAll(samples), os.WriteFile(samples, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := newLab(t).Run(t.Context(), s.Plan(), run); err != nil {
		t.Fatal(err)
	}
	r := recordsOf(t, run)[0]
	if r.Failure != "" || r.Requests != 400 {
		t.Errorf("%d requests, %s: the measurement is there without its samples", r.Requests, r.Failure)
	}
	if warnings := fmt.Sprint(r.Warnings); r.SamplesFile != "" || !strings.Contains(warnings, "the samples were not kept") || !strings.Contains(warnings, samples) {
		t.Errorf("samples in %q, warnings %q", r.SamplesFile, r.Warnings)
	}
}

func TestARecordThatCannotBeWrittenEndsTheRun(t *testing.T) {
	s := oneCell(t, "tcp,rest")
	run := create(t, s)
	if err := run.Finish(record.Done); err != nil {
		t.Fatal(err)
	}
	if err := newLab(t).Run(t.Context(), s.Plan(), run); err == nil {
		t.Error("two trials were measured for nothing")
	}
	if n := len(recordsOf(t, run)); n != 0 {
		t.Errorf("%d records", n)
	}
}

// A run that is interrupted keeps what it has and leaves no process.
func TestAnInterruptedRun(t *testing.T) {
	takesSeconds(t)
	l := newLab(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	stopped := errors.New("Ctrl-C")
	s := oneCell(t, "tcp,grpc")
	s.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Hour)}
	l.Observers = whenMeasuring(func() { interrupt(stopped) })
	run := create(t, s)
	if err := l.Run(ctx, s.Plan(), run); !errors.Is(err, stopped) {
		t.Errorf("got %v, want its cause", err)
	}
	if n := len(recordsOf(t, run)); n != 0 {
		t.Errorf("%d records of trials that did not end", n)
	}
	wantNoWorkers(t)
}
