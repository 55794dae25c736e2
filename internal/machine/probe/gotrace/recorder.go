package gotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
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
	// horizonNS is the time before the end of a turn in which calls that begin are left out: longer ones of
	// them do not end in the turn, and the rest would be short calls.
	horizonNS = int64(50 * time.Millisecond)
	// wholeTrace is the number of the only turn of a worker that traces itself from its start to its end.
	wholeTrace = int64(1)
	// settlingNS is the time after a turn in which a worker writes the rest of its trace.
	settlingNS = int64(10 * time.Millisecond)
	// maxTurnBytes limits the trace of a turn. Several million events fit.
	maxTurnBytes = 32 << 20
	// maxFileBytes is the size from which a recorder begins its file again. It holds the window of a
	// pass, which is the last that a worker traces.
	maxFileBytes = 256 << 20
	// In the file, each turn has its number and the size of its trace (8 bytes each) before it. They are
	// zero until the turn has ended.
	turnHeadBytes = 16
)

// LongCall is the duration from which calls are too long for turns.
const LongCall = time.Duration(horizonNS / 2)

// A Recorder traces its own process, and writes the traces to a file.
type Recorder struct {
	file   *os.File
	whole  bool // without turns
	size   int64
	stop   chan struct{}
	done   chan struct{}
	failed error
}

// StartRecorder starts a recorder, which traces in turns, or the whole time until Stop.
func StartRecorder(file *os.File, whole bool) *Recorder {
	r := &Recorder{file: file, whole: whole, stop: make(chan struct{}), done: make(chan struct{})}
	go r.run() // ends with Stop
	return r
}

// Stop ends the recording. It may be called on nil.
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
		turn, end := clock.Now()/cycleNS+1, int64(math.MaxInt64)
		if r.whole {
			turn = wholeTrace
		} else {
			if end = turn*cycleNS + turnNS; r.waitUntil(turn * cycleNS) {
				return
			}
		}
		into := r.beginTurn()
		if err := trace.Start(into); err != nil {
			r.failed = fmt.Errorf("trace this process: %w", err)
			return
		}
		turnNow.Store(turn)
		stopped := r.waitUntil(end)
		turnNow.Store(0)
		trace.Stop()
		r.failed = r.finish(turn, into)
		if stopped {
			return
		}
	}
}

func (r *Recorder) beginTurn() *turnWriter {
	if r.size > maxFileBytes {
		r.size = 0
	}
	most := maxTurnBytes
	if r.whole {
		most = maxFileBytes
	}
	return &turnWriter{file: r.file, from: r.size + turnHeadBytes, most: int64(most), failed: r.file.Truncate(r.size)}
}

// finish writes the head of a turn. The next turn overwrites a trace that is too large.
func (r *Recorder) finish(turn int64, trace *turnWriter) error {
	if trace.size <= trace.most && trace.failed == nil {
		head := binary.LittleEndian.AppendUint64(nil, uint64(turn))
		head = binary.LittleEndian.AppendUint64(head, uint64(trace.size))
		_, trace.failed = r.file.WriteAt(head, r.size)
		r.size = trace.from + trace.size
	}
	if trace.failed != nil {
		return fmt.Errorf("write an execution trace: %w", trace.failed)
	}
	return nil
}

func (r *Recorder) waitUntil(instant int64) (stopped bool) {
	select {
	case <-r.stop:
		return true
	case <-time.After(time.Duration(instant - clock.Now())):
		return false
	}
}

// A turnWriter writes the trace of a turn to a file while the turn lasts. A buffer of its size on the
// heap would make the garbage collector run at other times than in a process without traces.
type turnWriter struct {
	file       *os.File
	from, size int64
	most       int64 // a larger trace is lost
	failed     error
}

func (w *turnWriter) Write(p []byte) (int, error) {
	if w.failed == nil && w.size <= w.most {
		_, w.failed = w.file.WriteAt(p, w.from+w.size)
		w.size += int64(len(p))
	}
	return len(p), w.failed
}

// readTurns returns the traces of a recorder's file, by the number of their turn. A trace that was not
// written to its end is left out.
func readTurns(file io.ReaderAt) (map[int64]*io.SectionReader, error) {
	turns, at := map[int64]*io.SectionReader{}, int64(0)
	for {
		var head [turnHeadBytes]byte
		if whole, err := readsWhole(file, head[:], at); !whole {
			return turns, err
		}
		turn, size := int64(binary.LittleEndian.Uint64(head[:])), int64(binary.LittleEndian.Uint64(head[8:]))
		if turn == 0 && size == 0 { // its process ended in the middle of a turn
			return turns, nil
		}
		if size <= 0 || size > maxFileBytes {
			return nil, fmt.Errorf("read execution traces: a trace of %d bytes at %d", size, at)
		}
		at += turnHeadBytes
		if whole, err := readsWhole(file, make([]byte, 1), at+size-1); !whole {
			return turns, err
		}
		turns[turn] = io.NewSectionReader(file, at, size)
		at += size
	}
}

// readsWhole fills a buffer from an offset. It returns false if the file ends before.
func readsWhole(file io.ReaderAt, into []byte, at int64) (bool, error) {
	switch n, err := file.ReadAt(into, at); {
	case n == len(into):
		return true, nil
	case errors.Is(err, io.EOF):
		return false, nil
	default:
		return false, fmt.Errorf("read execution traces: %w", err)
	}
}
