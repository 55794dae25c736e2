package gotrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	// maxTurnBytes limits the trace of a turn. Several million events fit.
	maxTurnBytes = 32 << 20
	// maxFileBytes is the size from which a recorder begins its file again. It holds the window of a
	// pass, which is the last that a worker traces.
	maxFileBytes = 256 << 20
	// In the file, each turn has its number and the size of its trace (8 bytes each) before it.
	turnHeadBytes = 16
)

// A Recorder traces its own process in turns, and writes the traces to a file.
type Recorder struct {
	file   *os.File
	size   int64
	stop   chan struct{}
	done   chan struct{}
	failed error
}

// StartRecorder starts a recorder.
func StartRecorder(file *os.File) *Recorder {
	r := &Recorder{file: file, stop: make(chan struct{}), done: make(chan struct{})}
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
		r.failed = r.write(turn, into)
		if stopped {
			return
		}
	}
}

func (r *Recorder) write(turn int64, trace *turnBuffer) error {
	if trace.Len() > maxTurnBytes {
		return nil
	}
	if r.size > maxFileBytes {
		if err := r.file.Truncate(0); err != nil {
			return fmt.Errorf("begin a file of execution traces again: %w", err)
		}
		r.size = 0
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(turn))
	head = binary.LittleEndian.AppendUint64(head, uint64(trace.Len()))
	for _, part := range [][]byte{head, trace.Bytes()} {
		if _, err := r.file.WriteAt(part, r.size); err != nil {
			return fmt.Errorf("write an execution trace: %w", err)
		}
		r.size += int64(len(part))
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

// A turnBuffer stores at most a little more than maxTurnBytes.
type turnBuffer struct{ bytes.Buffer }

func (b *turnBuffer) Write(p []byte) (int, error) {
	if b.Len() > maxTurnBytes {
		return len(p), nil
	}
	return b.Buffer.Write(p)
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
		if size <= 0 || size > maxTurnBytes {
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
