package worker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"wirelab.dev/internal/run/load"
)

const (
	// writtenBytes is the size of a call in a calls file.
	writtenBytes = 32
	// mostWritten bounds a calls file, to a gigabyte.
	mostWritten = 1 << 30 / writtenBytes
)

// workOut fills in what a client measured from the calls that it wrote down, if it did.
func (r *ClientResult) workOut(s Spec) error {
	if r == nil || r.CallsWritten == 0 || s.Client == nil {
		return nil
	}
	calls, err := readCalls(s.Client.CallsFile, r.CallsWritten)
	if err != nil {
		return err
	}
	plan, err := s.Bounds()
	if err != nil {
		return err
	}
	plan.Callers = make([]load.Caller, s.Client.Clients)
	measured, err := load.Replay(plan, load.Journal{Calls: calls, Begin: r.BeginNS, End: r.EndNS, Failures: r.Failures})
	if err != nil {
		return err
	}
	defer measured.Close()
	if err := measured.Encode(); err != nil {
		return err
	}
	negotiated := r.Negotiated
	r.Measurement, r.Failures = measured.Measurement, measured.Failures
	r.BeginNS, r.EndNS, r.BetweenNS = measured.Begin, measured.End, int64(measured.Between)
	r.Negotiated, r.WarmUp.Method = negotiated, "the worker's own; whether it was enough is seen by "+WarmUpMethod
	if err := KeepSamples(s.Client.SamplesFile, measured.Samples); err != nil {
		r.SamplesFailed = err.Error()
	}
	return nil
}

// readCalls reads a file of count calls.
func readCalls(path string, count int64) ([]load.Written, error) {
	if path == "" {
		return nil, fmt.Errorf("it reports %d written calls and has no calls_file", count)
	}
	if count < 0 || count > mostWritten {
		return nil, fmt.Errorf("it reports %d written calls: want at most %d", count, mostWritten)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != count*writtenBytes {
		return nil, fmt.Errorf("%s: %d bytes: want %d calls of %d bytes", path, info.Size(), count, writtenBytes)
	}
	calls := make([]load.Written, count)
	from := bufio.NewReader(file)
	for i := range calls {
		var b [writtenBytes]byte
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return nil, fmt.Errorf("%s: call %d of %d: %w", path, i, count, err)
		}
		calls[i] = parseCall(b)
	}
	return calls, nil
}

// parseCall reads a call; docs/worker-contract.md has its form.
func parseCall(b [writtenBytes]byte) load.Written {
	return load.Written{
		Due:     int64(binary.LittleEndian.Uint64(b[:])),
		Sent:    int64(binary.LittleEndian.Uint64(b[8:])),
		Ended:   int64(binary.LittleEndian.Uint64(b[16:])),
		Caller:  binary.LittleEndian.Uint32(b[24:]),
		Failure: binary.LittleEndian.Uint32(b[28:]),
	}
}
