package gotrace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/trace"
	"time"

	"wirelab.dev/internal/base/clock"
)

const (
	// A cycle begins with a turn, in which a worker traces itself. Both workers of a trial compute
	// the same turns from the machine's clock. Calls outside the turns show what tracing costs.
	cycleNS = int64(300 * time.Millisecond)
	turnNS  = int64(200 * time.Millisecond)
	// settlingNS is the time after a turn in which a worker writes its trace.
	settlingNS = int64(10 * time.Millisecond)
	// keptTurns limits the files of a recorder. The window of a pass is shorter than these turns.
	keptTurns = 40
	// maxTurnBytes limits the trace of a turn. Several million events fit.
	maxTurnBytes = 32 << 20
)

// A Recorder traces its own process in turns, and writes each turn to a file of its own.
type Recorder struct {
	path   string
	stop   chan struct{}
	done   chan struct{}
	failed error
}

// StartRecorder starts a recorder. It writes the trace of turn n to path.n. It returns nil if path
// is empty.
func StartRecorder(path string) *Recorder {
	if path == "" {
		return nil
	}
	r := &Recorder{path: path, stop: make(chan struct{}), done: make(chan struct{})}
	go r.run() // ends with Stop
	return r
}

// Stop ends the recording.
func (r *Recorder) Stop() error {
	if r == nil {
		return nil
	}
	close(r.stop)
	<-r.done
	return r.failed
}

func (r *Recorder) run() {
	defer close(r.done)
	for r.failed == nil {
		turn := clock.Now()/cycleNS + 1
		if r.waitUntil(turn * cycleNS) {
			return
		}
		into := &turnBuffer{}
		if err := trace.Start(into); err != nil {
			r.failed = fmt.Errorf("trace this process: %w", err)
			return
		}
		stopped := r.waitUntil(turn*cycleNS + turnNS)
		trace.Stop()
		if into.Len() <= maxTurnBytes {
			r.failed = os.WriteFile(turnFile(r.path, turn), into.Bytes(), 0o600)
		}
		if old := turnFile(r.path, turn-keptTurns); r.failed == nil {
			if err := os.Remove(old); !errors.Is(err, os.ErrNotExist) {
				r.failed = err
			}
		}
		if stopped {
			return
		}
	}
}

func (r *Recorder) waitUntil(instant int64) (stopped bool) {
	select {
	case <-r.stop:
		return true
	case <-time.After(time.Duration(instant - clock.Now())):
		return false
	}
}

func turnFile(path string, turn int64) string { return fmt.Sprintf("%s.%d", path, turn) }

// A turnBuffer stores at most a little more than maxTurnBytes.
type turnBuffer struct{ bytes.Buffer }

func (b *turnBuffer) Write(p []byte) (int, error) {
	if b.Len() > maxTurnBytes {
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
