package worker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
)

// WarmUpMethod says, in records, how the end of the warm-up is found.
const WarmUpMethod = "MSER-5, and no drift behind its cut, over 5 ms intervals: of the throughput, in open loops of the mean service time"

// Bounds returns the load of the spec, without its callers.
func (s *Spec) Bounds() (load.Plan, error) {
	l := s.Client.Load
	open, err := s.arrivals()
	return load.Plan{
		Group:    s.Client.Group,
		Requests: l.RequestsPerClient, Extra: l.ExtraRequests, Duration: time.Duration(l.DurationNS),
		Open: open, InFlight: l.InFlightLimit, Drain: time.Duration(l.DrainNS),
		WarmUp:      load.WarmUp{AtLeast: time.Duration(l.WarmUpAtLeastNS), AtMost: time.Duration(l.WarmUpAtMostNS)},
		KeepSamples: s.Client.SamplesFile != "",
	}, err
}

// arrivals returns the schedule of the spec's load; nil for a closed loop, and for a
// search, which makes its own.
func (s *Spec) arrivals() (*load.Arrivals, error) {
	l := s.Client.Load
	open := &load.Arrivals{RatePerSecond: l.RatePerSecond, Poisson: l.Arrivals == "poisson", Seed: s.Client.Seed}
	switch l.Model {
	case scenario.Closed, scenario.Search:
		return nil, nil
	case scenario.Burst:
		return &load.Arrivals{Burst: l.Burst}, nil
	case scenario.Open:
	case scenario.Ramp:
		open.RampTo = l.RampTo
	default:
		return nil, fmt.Errorf("worker spec: load model %q: want closed, open, burst, ramp or search", l.Model)
	}
	if !open.Poisson && l.Arrivals != "constant" {
		return nil, fmt.Errorf("worker spec: arrivals %q: want constant or poisson", l.Arrivals)
	}
	return open, nil
}

// KeepSamples writes the samples and makes their folder; without a path it does nothing.
func KeepSamples(path string, samples []*latency.SampleLog) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return latency.WriteParquet(path, samples)
}

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

// parseCall reads a call in the form of docs/worker-contract.md.
func parseCall(b [writtenBytes]byte) load.Written {
	return load.Written{
		Due:     int64(binary.LittleEndian.Uint64(b[:])),
		Sent:    int64(binary.LittleEndian.Uint64(b[8:])),
		Ended:   int64(binary.LittleEndian.Uint64(b[16:])),
		Caller:  binary.LittleEndian.Uint32(b[24:]),
		Failure: binary.LittleEndian.Uint32(b[28:]),
	}
}
