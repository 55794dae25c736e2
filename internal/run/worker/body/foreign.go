package body

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
)

const (
	// foreignExtraTime limits how long another program may run after the time of its load.
	foreignExtraTime = 20 * time.Second
	// maxForeignOutputBytes limits the output of another program. A summary has a few kilobytes. A
	// summary of many different errors has more.
	maxForeignOutputBytes = 1 << 20
)

// boundedBuffer holds at most maxForeignOutputBytes. More output is an error and ends the program.
type boundedBuffer struct {
	text bytes.Buffer
	err  error
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxForeignOutputBytes {
		b.err = fmt.Errorf("the program printed more than %d KiB", maxForeignOutputBytes>>10)
		return 0, b.err
	}
	return b.text.Write(p)
}

// runForeignClient runs another program that makes the calls. The window lasts as long as the
// program runs. The client's cost is the program's cost according to the kernel.
func runForeignClient(ctx context.Context, spec *task, program generator.Generator, events *eventPrinter) error {
	path, version, err := program.Find()
	if err != nil {
		return err
	}
	call, err := spec.foreignCall(ctx)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "wirelab-client-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	arguments, err := program.Prepare(call, folder)
	if err != nil {
		return err
	}
	if err := events.printReady(worker.Ready{Address: spec.Address, Runtime: version, Settings: []tuning.Setting{{
		Side: tuning.Client, Name: program.Name, Value: strings.Join(arguments[:len(arguments)-1], " "), Default: "no arguments",
		Why: "the client is another program; with these arguments it makes the cell's calls",
	}}}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, call.Duration+foreignExtraTime, fmt.Errorf("the program did not end within %v after its load of %v", foreignExtraTime, call.Duration))
	defer cancel()
	command := exec.CommandContext(ctx, path, arguments...)
	command.Dir = folder
	stopProgress := events.reportTimeProgress(call.Duration)
	stops := probe.WithStoppedTime(func() (probe.Usage, error) { return probe.Usage{AtNS: clock.Now()}, nil })
	before, err := stops()
	if err != nil {
		return err
	}
	begin := clock.Now()
	var output boundedBuffer
	command.Stdout, command.Stderr = &output, &output
	err = command.Run()
	end := clock.Now()
	stopProgress()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program.Name, errors.Join(err, output.err, context.Cause(ctx)), worker.QuoteShortened(output.text.String()))
	}
	after, err := stops()
	if err != nil {
		return err
	}
	counts, err := program.Read(output.text.String(), call)
	if err != nil {
		return err
	}
	result := foreignResult(counts)
	result.ClientProgram, result.BeginNS, result.EndNS = version, begin, end
	result.Usage = processCost(command.ProcessState, after.Since(before))
	result.Allowance = allowanceOf(os.Getpid()) // the program inherits this allowance
	result.Connections = worker.Connections{Mode: spec.Client.Connection, Want: call.Connections}
	return events.printEvent(worker.Event{Event: "result", Result: &worker.Result{Client: result}})
}

// foreignCall returns the description of the workload's call for another program.
func (s *task) foreignCall(ctx context.Context) (generator.Call, error) {
	l := s.Client.Load
	if s.Client.Group != nil {
		return generator.Call{}, errors.New("the client is another program, which cannot join a group of clients: choose wirelab's own client")
	}
	if l.Model != scenario.Closed || l.DurationNS <= 0 || l.InFlightLimit > 0 || s.Probe != "" {
		return generator.Call{}, errors.New("the client is another program, which supports only a closed loop with a duration, without an in-flight limit and without a probe: change the load")
	}
	call, err := s.prepareCall(ctx)
	if err != nil {
		return generator.Call{}, err
	}
	connections := call.mode.ConnectionCount(s.Client.Clients)
	if call.mode.Mode.PerRequest() || s.Client.Clients%connections != 0 {
		return generator.Call{}, fmt.Errorf("the client is another program, whose connections must have equally many callers: the connection is %[2]s; want shared, per-worker or a pool whose size divides %[1]d", s.Client.Clients, call.mode)
	}
	request := call.definition.Requests[0]
	c := generator.Call{
		Protocol: protocolOfWire[call.definition.Wire], Address: s.Address, Method: request.Method, Path: request.Path, Message: request.Body,
		AnswerBytes: call.answerBytes, WireBytes: call.wireBytes,
		Callers: s.Client.Clients, Connections: connections, Threads: runtime.NumCPU(), Duration: time.Duration(l.DurationNS),
	}
	if len(request.Messages) > 0 {
		c.Message = request.Messages[0]
	}
	for _, f := range request.Header {
		c.Header = append(c.Header, generator.Field(f))
	}
	return c, nil
}

var protocolOfWire = map[service.Wire]generator.Protocol{
	service.HTTP1: generator.HTTP1, service.HTTP2: generator.HTTP2, service.GRPC: generator.GRPC,
}

// foreignResult converts another program's counts into a result. It does not know percentiles,
// calls in flight or connections.
func foreignResult(c generator.Counts) *worker.ClientResult {
	r := &worker.ClientResult{Measurement: record.Measurement{
		Requests: c.Requests, Completed: c.Requests, WarmUp: record.WarmUp{Method: "none"},
	}}
	if answered := c.Requests - c.Failed; answered > 0 {
		r.Service = latency.Distribution{Count: answered, Sum: answered * int64(c.Mean), Min: int64(c.Min), Max: int64(c.Max)}
	}
	if c.Failed > 0 {
		r.Failures = []record.ErrorCount{{Class: string(failure.WrongAnswer), Code: wrongAnswerCode, Count: c.Failed, Example: c.Example}}
	}
	return r
}

// processCost adds the cost of an ended process to u, the difference of two readings.
func processCost(p *os.ProcessState, u probe.Usage) *probe.Window {
	u.UserNS, u.SystemNS = int64(p.UserTime()), int64(p.SystemTime())
	if c, known := system.CountsOf(p); known {
		u.VoluntarySwitches, u.InvoluntarySwitches, u.MinorFaults, u.MajorFaults = c.VoluntarySwitches, c.InvoluntarySwitches, c.MinorFaults, c.MajorFaults
	}
	return &probe.Window{Usage: u}
}

// reportTimeProgress reports the share of the duration that is over, until stop is called.
func (e *eventPrinter) reportTimeProgress(duration time.Duration) (stop func()) {
	begin := time.Now()
	return worker.RunEvery(time.Second/2, func() {
		e.printProgress(live.Progress{Fraction: min(1, time.Since(begin).Seconds()/duration.Seconds())})
	})
}

const wrongAnswerCode = "WrongAnswer"
