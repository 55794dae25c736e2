// Package echo is the workload `echo`: the server sends the payload back.
//
// Each client prepares one payload of incompressible bytes. It sends this payload again and again
// with a new id and new last bytes, so that no server can answer before the whole payload has
// arrived. The handler changes only the timestamp, so that a trial measures the wire and not the
// work behind it. The client checks every byte of the answer.
//
// If the answer's size differs from the request's, the request names the size, which takes three to
// five bytes. The id and the last bytes of the request's data then determine the answer.
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
	longCallKey = "beside"
	computeKey  = "compute"
	lockedKey   = "locked"
	copyKey     = "copy"
)

// Workload is echo. The zero value is ready.
type Workload struct{}

// Info describes the workload. The scenario's sizes are payload sizes.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name:    "echo",
		Summary: "the server sends the payload back with a new timestamp; with sizes like 64/4KiB, it sends an answer of the requested size",
		Options: append(workload.StallOptions(), scenario.Option{
			Key: longCallKey, Parse: scenario.BytesUpTo(workload.MaxBytes),
			Help: "SIZE: the first client always keeps one extra, unmeasured call of SIZE bytes in flight",
		}, scenario.Option{
			Key: computeKey, Parse: scenario.Time,
			Help: "TIME: how long the handler computes in every request, to simulate work",
		}, scenario.Option{
			Key: lockedKey, Parse: scenario.Time,
			Help: "TIME: how long the handler sleeps in every request while it holds a lock that all requests share",
		}, scenario.Option{
			Key: copyKey, Parse: scenario.BytesUpTo(maxCopiedBytes),
			Help: "SIZE: how many bytes the client copies for every request, to simulate work",
		}), Sized: true, Operations: len(echopb.EchoService_ServiceDesc.Methods),
	}
}

// Check refuses sizes that a stack cannot carry.
func (w Workload) Check(p workload.Parameters) error {
	return p.Check(w, workload.MaxBytes, func(o *scenario.Options) { workload.ReadStall(o) })
}

// Register implements workload.Workload.
func (w Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	o := workload.ReadOptions(w, p)
	echopb.RegisterEchoServiceServer(to, &handler{
		stall: workload.ReadStall(o), compute: scenario.Value[time.Duration](o, computeKey), locked: scenario.Value[time.Duration](o, lockedKey),
	})
}

// NewCaller makes one client with its own payload.
func (w Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	c, o := newCaller(conn, job), workload.ReadOptions(w, job.Parameters)
	if c.copies = scenario.Value[int](o, copyKey); c.copies > 0 {
		c.from, c.to = make([]byte, copyBlockBytes), make([]byte, copyBlockBytes)
	}
	if size := scenario.Value[int](o, longCallKey); size > 0 && job.Client == 0 {
		job.RequestBytes, job.ResponseBytes = size, size
		return &callerWithLongCall{caller: c, long: newCaller(conn, job)}
	}
	return c
}

// callerWithLongCall is a client that also keeps a long call running. The frames of the long call
// share the connection with other clients' calls.
type callerWithLongCall struct {
	*caller
	long    *caller
	begun   sync.Once
	failure atomic.Pointer[error] // the error, if a long call has failed
}

// Call makes a measured call. It fails if a long call has failed.
func (c *callerWithLongCall) Call(ctx context.Context) error {
	c.begun.Do(func() { go c.repeatLongCall(ctx) })
	if failure := c.failure.Load(); failure != nil {
		return *failure
	}
	return c.caller.Call(ctx)
}

func (c *callerWithLongCall) repeatLongCall(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.long.Call(ctx)
		if err == nil {
			err = c.long.Check()
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("the extra, unmeasured call: %w", err)
			c.failure.Store(&err)
			return
		}
	}
}

type handler struct {
	echopb.UnimplementedEchoServiceServer
	stall   *workload.Stall
	compute time.Duration
	locked  time.Duration
	lock    sync.Mutex
}

const (
	maxCopiedBytes = 1 << 30
	copyBlockBytes = 4 << 20 // larger than a CPU's own caches
)

// Echo answers with the request message itself, because the handler owns it.
func (h *handler) Echo(ctx context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	if err := h.stall.DelayIfDue(ctx); err != nil {
		return nil, err
	}
	for until := time.Now().Add(h.compute); h.compute > 0 && time.Now().Before(until); { // keep the CPU busy
	}
	if h.locked > 0 {
		h.lock.Lock()
		time.Sleep(h.locked)
		h.lock.Unlock()
	}
	data, err := workload.Answer(in.Id, in.Data, in.AnswerBytes)
	if err != nil {
		return nil, err
	}
	in.Data, in.AnswerBytes = data, nil
	in.Timestamp = time.Now().UnixNano()
	return in, nil
}

// A caller is one client. It reuses one request, because no stack keeps a request after the call.
type caller struct {
	stub    echopb.EchoServiceClient
	fresh   *workload.LastBytesChanger
	request *echopb.Payload
	answer  *echopb.Payload // the last call's answer

	copies   int    // number of bytes that each call copies, to simulate work
	from, to []byte // source and destination of the copies
}

func newCaller(conn grpc.ClientConnInterface, job workload.Job) *caller {
	return &caller{
		stub:    echopb.NewEchoServiceClient(conn),
		fresh:   job.NewLastBytesChanger(),
		request: &echopb.Payload{Data: job.RandomPayload(), AnswerBytes: job.RequestedAnswerBytes()},
	}
}

// Call sends the payload with the next id. The first id is 1.
func (c *caller) Call(ctx context.Context) error {
	for left := c.copies; left > 0; {
		left -= copy(c.to, c.from[:min(left, len(c.from))])
	}
	c.request.Id++
	c.fresh.ChangeLastBytes(c.request.Data)
	c.request.Timestamp = time.Now().UnixNano()
	answer, err := c.stub.Echo(ctx, c.request)
	c.answer = answer
	return err
}

// Check checks that the answer has the requested data.
func (c *caller) Check() error {
	sent, got := c.request, c.answer
	want, _ := workload.Answer(sent.Id, sent.Data, sent.AnswerBytes) // Check has checked the size
	switch {
	case got.GetId() != sent.Id:
		return fmt.Errorf("echo: the answer to id %d has id %d", sent.Id, got.GetId())
	case len(got.Data) != len(want):
		return fmt.Errorf("echo: got %[2]d bytes, want %[1]d", len(want), len(got.Data))
	case !bytes.Equal(got.Data, want):
		return fmt.Errorf("echo: the answer of %d bytes is wrong, first at byte %d", len(want), firstDifference(want, got.Data))
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
