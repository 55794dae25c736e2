// Package echo is the workload `echo`: the server sends the payload back.
//
// Each client prepares one payload of incompressible bytes. It sends it again and again with a new
// id and new last bytes, so that no server can answer before all of it has arrived. The handler
// changes only the timestamp, so that a trial measures the wire and not the work behind it. The
// client checks every byte of the answer.
//
// If the answer has another size than the request, the request names that size, and the id and the
// last bytes of its data determine the answer. The request then has three to five more bytes than
// without a size.
package echo

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

const (
	besideKey  = "beside"
	computeKey = "compute"
	copyKey    = "copy"
)

// Workload is echo. The zero value is ready.
type Workload struct{}

// Info describes echo. A size is the size of a payload.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name:    "echo",
		Summary: "the same payload back, with a new timestamp; or, with sizes like 64/4KiB, an answer of the requested size",
		Options: append(workload.StallOptions(), scenario.Option{
			Key: besideKey, Parse: scenario.BytesUpTo(workload.MaxBytes),
			Help: "SIZE: beside its calls, the first client always keeps one unmeasured call of SIZE bytes in flight",
		}, scenario.Option{
			Key: computeKey, Parse: scenario.Time,
			Help: "TIME: how long the handler computes in every request, to simulate work",
		}, scenario.Option{
			Key: copyKey, Parse: scenario.BytesUpTo(mostCopied),
			Help: "SIZE: how many bytes the client copies for every request, to simulate work",
		}), Sized: true, Operations: len(echopb.EchoService_ServiceDesc.Methods),
	}
}

// Check refuses sizes that some stack cannot carry.
func (w Workload) Check(p workload.Parameters) error {
	return p.Check(w, workload.MaxBytes, func(o *scenario.Options) { workload.ReadStall(o) })
}

// Register implements workload.Workload.
func (w Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	o := workload.ReadOptions(w, p)
	echopb.RegisterEchoServiceServer(to, &handler{stall: workload.ReadStall(o), compute: scenario.Value[time.Duration](o, computeKey)})
}

// NewCaller makes one client with its own payload.
func (w Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	c, o := newCaller(conn, job), workload.ReadOptions(w, job.Parameters)
	if c.copies = scenario.Value[int](o, copyKey); c.copies > 0 {
		c.from, c.to = make([]byte, copiedAtOnce), make([]byte, copiedAtOnce)
	}
	if size := scenario.Value[int](o, besideKey); size > 0 && job.Client == 0 {
		job.RequestBytes, job.ResponseBytes = size, size
		return &besideLong{caller: c, long: newCaller(conn, job)}
	}
	return c
}

// besideLong is a client that also keeps a long call in flight. Messages of other clients on its
// connection are sent between that call's frames.
type besideLong struct {
	*caller
	long    *caller
	begun   sync.Once
	failure atomic.Pointer[error] // the error of a long call
}

// Call makes one of the measured calls. It fails once a long one has failed.
func (c *besideLong) Call(ctx context.Context) error {
	c.begun.Do(func() { go c.keepLong(ctx) })
	if failure := c.failure.Load(); failure != nil {
		return *failure
	}
	return c.caller.Call(ctx)
}

func (c *besideLong) keepLong(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.long.Call(ctx)
		if err == nil {
			err = c.long.Check()
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("the long call beside the measured ones: %w", err)
			c.failure.Store(&err)
			return
		}
	}
}

type handler struct {
	echopb.UnimplementedEchoServiceServer
	stall   *workload.Stall
	compute time.Duration
}

const (
	mostCopied   = 1 << 30
	copiedAtOnce = 4 << 20 // more than one CPU's own caches hold
)

// Echo answers with the request itself, which the handler owns.
func (h *handler) Echo(ctx context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	if err := h.stall.Hold(ctx); err != nil {
		return nil, err
	}
	for until := time.Now().Add(h.compute); h.compute > 0 && time.Now().Before(until); { // keeps its CPU busy
	}
	data, err := workload.Answer(in.Id, in.Data, in.AnswerBytes)
	if err != nil {
		return nil, err
	}
	in.Data, in.AnswerBytes = data, nil
	in.Timestamp = time.Now().UnixNano()
	return in, nil
}

// A caller is one client with one request, since no stack keeps a request after its call.
type caller struct {
	stub    echopb.EchoServiceClient
	fresh   *workload.Freshener
	request *echopb.Payload
	answer  *echopb.Payload // the last call's answer

	copies   int    // bytes to copy, to simulate work
	from, to []byte // the source and the target of copies
}

func newCaller(conn grpc.ClientConnInterface, job workload.Job) *caller {
	return &caller{
		stub:    echopb.NewEchoServiceClient(conn),
		fresh:   job.Freshener(),
		request: &echopb.Payload{Data: job.Filling(), AnswerBytes: job.AnswerBytes()},
	}
}

// Call sends the payload under its next id, beginning with 1.
func (c *caller) Call(ctx context.Context) error {
	for left := c.copies; left > 0; {
		left -= copy(c.to, c.from[:min(left, len(c.from))])
	}
	c.request.Id++
	c.fresh.Freshen(c.request.Data)
	c.request.Timestamp = time.Now().UnixNano()
	answer, err := c.stub.Echo(ctx, c.request)
	c.answer = answer
	return err
}

// Check checks that the answer has the data that the last call requested.
func (c *caller) Check() error {
	sent, got := c.request, c.answer
	want, _ := workload.Answer(sent.Id, sent.Data, sent.AnswerBytes) // the size was checked
	switch {
	case got.GetId() != sent.Id:
		return fmt.Errorf("echo: the answer to id %d has id %d", sent.Id, got.GetId())
	case len(got.Data) != len(want):
		return fmt.Errorf("echo: got %[2]d bytes, want %[1]d", len(want), len(got.Data))
	case !bytes.Equal(got.Data, want):
		return fmt.Errorf("echo: %d bytes came back changed, the first at %d", len(want), firstDifference(want, got.Data))
	}
	return nil
}

// firstDifference returns the first index at which two slices of equal length differ.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
