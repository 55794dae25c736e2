package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
)

// WarmUpMethod is the text in records about how the load engine finds the end of the warm-up.
const WarmUpMethod = "MSER-5 over 5 ms intervals, and no drift after the cut: of the throughput, or in open loops of the mean service time"

// LoadPlan returns the plan of the spec's load. The caller adds the callers.
func (s *Spec) LoadPlan() (load.Plan, error) {
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

// arrivals returns the schedule of the load. It returns nil for a closed loop, and for a search: a
// search makes its own schedules.
func (s *Spec) arrivals() (*load.Arrivals, error) {
	l := s.Client.Load
	open := &load.Arrivals{RatePerSecond: l.RatePerSecond, Poisson: l.Arrivals == "poisson", Seed: s.Client.Seed}
	switch l.Model {
	case scenario.Closed, scenario.Search:
		return nil, nil
	case scenario.Burst:
		return &load.Arrivals{Burst: l.Burst}, nil
	case scenario.Open:
		open.Total = l.TotalRequests
	case scenario.Ramp:
		open.Stages = l.Stages
	default:
		return nil, fmt.Errorf("worker spec: load model %q: want closed, open, burst, ramp or search", l.Model)
	}
	if !open.Poisson && l.Arrivals != "constant" {
		return nil, fmt.Errorf("worker spec: arrivals %q: want constant or poisson", l.Arrivals)
	}
	return open, nil
}

// WriteSamples writes samples to a file and makes its folder. If path is "", it does nothing.
func WriteSamples(path string, samples []*latency.SampleLog) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return latency.WriteParquet(path, samples)
}

const (
	// journalCallBytes is the number of bytes per call in a calls file.
	journalCallBytes = 32
	// maxJournalCalls bounds the calls in a file. The file then has at most a gigabyte.
	maxJournalCalls = 1 << 30 / journalCallBytes
)

// computeFromCalls computes the measurement from the file of calls, if the client wrote such a file
// instead of measuring. turns are the slices that a client of a block got.
func (r *ClientResult) computeFromCalls(s Spec, turns []load.Slice) error {
	if r == nil || r.CallsWritten == 0 || s.Client == nil {
		return nil
	}
	if s.Client.Block && turns == nil {
		return errors.New("the worker measured before it got its slices")
	}
	calls, err := readCalls(s.Client.CallsFile, r.CallsWritten)
	if err != nil {
		return err
	}
	plan, err := s.LoadPlan()
	if err != nil {
		return err
	}
	plan.Callers = make([]load.Caller, s.Client.Clients)
	plan.OwnConnections = s.Client.Connection == string(scenario.PerWorker)
	measured, err := load.Replay(plan, load.Journal{Calls: calls, Begin: r.BeginNS, End: r.EndNS, Failures: r.Failures, Slices: turns})
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
	r.CostBeforeNS, r.CostAfterNS = measured.CostBefore, measured.CostAfter
	r.Negotiated, r.WarmUp.Method = negotiated, "the worker's own; checked by "+WarmUpMethod
	if err := WriteSamples(s.Client.SamplesFile, measured.Samples); err != nil {
		r.SamplesFailed = err.Error()
	}
	return nil
}

func readCalls(path string, count int64) ([]load.JournalCall, error) {
	if path == "" {
		return nil, fmt.Errorf("the worker reports %d calls in its calls_file, but the spec has no calls_file: report calls_written only if the spec names a file", count)
	}
	if count < 0 || count > maxJournalCalls {
		return nil, fmt.Errorf("the worker reports %d calls in its calls_file: want 0 to %d", count, maxJournalCalls)
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
	if info.Size() != count*journalCallBytes {
		return nil, fmt.Errorf("%s has %d bytes: want %d calls of %d bytes each", path, info.Size(), count, journalCallBytes)
	}
	calls := make([]load.JournalCall, count)
	from := bufio.NewReader(file)
	for i := range calls {
		var b [journalCallBytes]byte
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return nil, fmt.Errorf("%s: read call %d of %d: %w", path, i, count, err)
		}
		calls[i] = parseJournalCall(b)
	}
	return calls, nil
}

// parseJournalCall decodes one call of a calls file, as in docs/worker-contract.md.
func parseJournalCall(b [journalCallBytes]byte) load.JournalCall {
	return load.JournalCall{
		Due:     int64(binary.LittleEndian.Uint64(b[:])),
		Sent:    int64(binary.LittleEndian.Uint64(b[8:])),
		Ended:   int64(binary.LittleEndian.Uint64(b[16:])),
		Caller:  binary.LittleEndian.Uint32(b[24:]),
		Failure: binary.LittleEndian.Uint32(b[28:]),
	}
}
