package gotrace

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
)

// hold is the time for which handlers hold a lock. No machine makes it shorter.
const hold = 2 * time.Millisecond

func sleepWithLock(lock *sync.Mutex) {
	lock.Lock()
	time.Sleep(hold)
	lock.Unlock()
}

// makeCalls makes calls over several connections while stop is open. The handlers of all connections
// take turns with one lock.
func makeCalls(t *testing.T, clients int, stop <-chan struct{}) (calls [][2]int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var lock, guard sync.Mutex
	var work errgroup.Group
	for i := range clients {
		work.Go(func() error {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			name := make([]byte, len(CallRegion)+4)
			for {
				if _, err := io.ReadFull(conn, name); err != nil {
					return nil // the client has ended
				}
				handled := trace.StartRegion(context.Background(), string(name))
				sleepWithLock(&lock)
				handled.End()
				if _, err := conn.Write(name); err != nil {
					return err
				}
			}
		})
		work.Go(func() error {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				name := CallRegion + strconv.Itoa(1000+100*i+n%100)
				begin := clock.Now()
				call := trace.StartRegion(context.Background(), name)
				if _, err := conn.Write([]byte(name)); err != nil {
					return err
				}
				if _, err := io.ReadFull(conn, make([]byte, len(name))); err != nil {
					return err
				}
				call.End()
				guard.Lock()
				calls = append(calls, [2]int64{begin, clock.Now() - begin})
				guard.Unlock()
			}
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return calls
}

// TestPlantedLock traces this process as the server and the client of a trial. With two clients, each
// handler waits for the lock while the other one holds it.
func TestPlantedLock(t *testing.T) {
	watch, err := Start(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []probe.End{probe.Client, probe.Server} {
		if err := watch.AddProcess(end, os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	recorder, begin := StartRecorder(watch.TraceFile(probe.Client), false), clock.Now()
	stop := make(chan struct{})
	go func() { // ends after some whole turns
		<-time.After(time.Duration(4 * cycleNS))
		close(stop)
	}()
	calls := makeCalls(t, 2, stop)
	if err := recorder.Stop(); err != nil {
		t.Fatal(err)
	}
	// The process is both ends.
	if _, err := io.Copy(watch.files[probe.Server], io.NewSectionReader(watch.files[probe.Client], 0, 1<<40)); err != nil {
		t.Fatal(err)
	}
	findings, err := watch.Stop(probe.MeasuredWindow{Span: probe.Span{BeginNS: begin, EndNS: clock.Now()}, Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	life := findings.Life
	t.Logf("%d of %d calls, %d with unknown stages; %v; missing: %v", len(life.Calls), len(calls), life.Untold, life.Method, life.Missing)
	// The handlers, too, are regions of the client's process, and have no handlers. At both edges of a
	// turn, a handler of each client may be whole while its call is not.
	const clients, turns = 2, 6
	if most := int64(len(life.Calls) + 2*clients*turns); len(life.Calls) < 10 || life.Untold > most || life.TracedNS == nil || len(life.Begins) != len(life.Calls) {
		t.Fatalf("%d calls, %d with unknown stages, mean %v; want at least 10 calls and %d", len(life.Calls), life.Untold, life.TracedNS, most)
	}
	wantCallStacks(t, life, life.Stacks)
	for i, call := range append(slices.Clip(life.Stacks.Slow), life.Stacks.Median) {
		asleep := time.Duration(0)
		for stack, ns := range timesByName(life.Stacks, call) {
			if strings.HasSuffix(stack, "gotrace.sleepWithLock;time.Sleep") {
				asleep += time.Duration(ns)
			}
		}
		if asleep < hold {
			t.Errorf("group %d of calls slept for %v with the lock, want at least %v: %v", i, asleep, hold, timesByName(life.Stacks, call))
		}
	}
	waited := 0
	for _, stages := range life.Calls {
		if held := time.Duration(stages[handlerWait] + stages[serverQueue] + stages[serverNoCPU]); held < hold {
			t.Errorf("a handler held the lock for %v, want at least %v", held, hold)
		}
		if time.Duration(stages[handlerLock]) > hold/2 {
			waited++
		}
	}
	if waited == 0 {
		t.Errorf("no handler waited for the lock: %v", life.Calls)
	}
}

func TestNoTraces(t *testing.T) {
	for name, window := range map[string]probe.Span{"none": {}, "one": {BeginNS: 1, EndNS: 1e9}} {
		watch, err := Start(false, nil)
		if err != nil {
			t.Fatal(err)
		}
		findings, err := watch.Stop(probe.MeasuredWindow{Span: window})
		if (err != nil) != (name == "none") || err == nil && len(findings.Life.Missing) == 0 {
			t.Errorf("window %s without traces: %+v, %v", name, findings.Life, err)
		}
	}
}

// TestTurnsInFile: a turn that is too large or has not ended leaves the turns before it.
func TestTurnsInFile(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "traces"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	r := &Recorder{file: file}
	for number, sizeBytes := range []int{100, 5000, 300, 50} {
		into := r.beginTurn()
		for part := range slices.Chunk(bytes.Repeat([]byte{byte(number + 1)}, sizeBytes), 64) {
			if n, err := into.Write(part); n != len(part) || err != nil {
				t.Fatalf("%d of %d bytes: %v", n, len(part), err)
			}
		}
		if number == 1 {
			into.size += maxTurnBytes
		}
		if number == 3 {
			break // its process is killed
		}
		if err := r.finish(int64(number+1), into); err != nil {
			t.Fatal(err)
		}
	}
	turns, err := readTurns(file)
	if err != nil || len(turns) != 2 {
		t.Fatalf("%d turns, want 2: %v", len(turns), err)
	}
	for number, sizeBytes := range map[int64]int{1: 100, 3: 300} {
		got, err := io.ReadAll(turns[number])
		if want := bytes.Repeat([]byte{byte(number)}, sizeBytes); err != nil || !bytes.Equal(got, want) {
			t.Errorf("turn %d has %d bytes, want %d: %v", number, len(got), sizeBytes, err)
		}
	}
}

// FuzzTurns reads files of any content.
func FuzzTurns(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00ab\x02\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		turns, err := readTurns(bytes.NewReader(file))
		if err != nil {
			return
		}
		for number, one := range turns {
			if text, err := io.ReadAll(one); err != nil || int64(len(text)) != one.Size() {
				t.Errorf("turn %d has %d of %d bytes: %v", number, len(text), one.Size(), err)
			}
		}
	})
}

// FuzzTimeline reads and divides traces of any content.
func FuzzTimeline(f *testing.F) {
	var one bytes.Buffer
	if err := trace.Start(&one); err != nil {
		f.Fatal(err)
	}
	for range 2 {
		trace.WithRegion(context.Background(), CallRegion+"1", func() { time.Sleep(time.Microsecond) })
	}
	trace.Stop()
	f.Add(one.Bytes())
	f.Add([]byte("go 1.26 trace\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, bytesOfTrace []byte) {
		both, err := readTimeline(bytes.NewReader(bytesOfTrace), newStackTable())
		if err != nil {
			return
		}
		life := &record.Life{}
		(&turn{both, both, cpuTimes{}, 0}).divide(probe.Span{BeginNS: 0, EndNS: 1 << 62}, 1, life)
		for _, stages := range life.Calls {
			if slices.Min(stages) < 0 {
				t.Errorf("negative times %v", stages)
			}
		}
	})
}
