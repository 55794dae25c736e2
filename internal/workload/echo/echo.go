// Package echo is the workload `echo`: the server sends the payload back.
//
// Each client prepares one payload of incompressible bytes and sends it over
// and over with a new id. The handler changes nothing but the timestamp, so
// that a trial measures the wire and not the work behind it. The client checks
// every byte of the answer, so that no wrong answer counts as a success.
//
// If the answer has another size than the request, the request says which, and the
// id determines its bytes. The request is then three to five bytes longer
// than the symmetric one.
package echo

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/echo/echopb"
)

// MaxBytes is the largest payload. With its other fields it stays below the
// message limit of every stack.
const MaxBytes = 16<<20 - 64

// Workload is echo. The zero value is ready.
type Workload struct{}

var _ workload.Workload = Workload{}

// Info describes echo. The sizes are those of the payloads.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name:    "echo",
		Summary: "the same payload back, with a new timestamp; or, with sizes like 64/4KiB, as many bytes as asked for",
		Options: workload.StallOptions(), Sized: true, Operations: len(echopb.EchoService_ServiceDesc.Methods),
	}
}

// Check refuses sizes that some stack cannot carry.
func (w Workload) Check(p workload.Parameters) error {
	if err := p.CheckSizes(w.Info(), MaxBytes); err != nil {
		return err
	}
	options := workload.ReadOptions(w, p)
	workload.ReadStall(options)
	return options.Err()
}

// Register implements workload.Workload.
func (w Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	echopb.RegisterEchoServiceServer(to, &handler{stall: workload.ReadStall(workload.ReadOptions(w, p))})
}

// NewCaller makes one client with its own payload.
func (Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	return newCaller(conn, job)
}

type handler struct {
	echopb.UnimplementedEchoServiceServer
	stall *workload.Stall
}

// Echo answers with the request itself, which the handler owns.
func (h *handler) Echo(ctx context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	if err := h.stall.Hold(ctx); err != nil {
		return nil, err
	}
	if in.AnswerBytes != nil {
		if *in.AnswerBytes > MaxBytes {
			return nil, status.Errorf(codes.InvalidArgument, "echo: an answer of %d bytes: want 0 to %d", *in.AnswerBytes, MaxBytes)
		}
		in.Data, in.AnswerBytes = workload.Pattern(in.Id, int(*in.AnswerBytes)), nil
	}
	in.Timestamp = time.Now().UnixNano()
	return in, nil
}
