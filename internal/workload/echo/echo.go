// Package echo is the workload `echo`: the payload that goes out comes back.
//
// Each client prepares one payload of incompressible bytes and sends it over
// and over with a new id. The handler changes nothing but the timestamp, so
// that a trial measures the wire and not the work behind it; and since the
// client knows every byte that must come back, no wrong answer is ever counted.
package echo

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/echo/echopb"
)

// MaxBytes is the largest payload. With its other fields it stays below the
// message limit of every stack.
const MaxBytes = 16<<20 - 64

// Workload is echo. The zero value is ready.
type Workload struct{}

var _ workload.Workload = Workload{}

// Name is `echo`.
func (Workload) Name() string { return "echo" }

// Describe says what a call asks for.
func (Workload) Describe() string { return "the same payload back, with a new timestamp" }

// Operations is one.
func (Workload) Operations() int { return len(echopb.EchoService_ServiceDesc.Methods) }

// Check wants one size for both directions: an echo has no other.
func (Workload) Check(p workload.Parameters) error {
	if p.RequestBytes < 0 || p.RequestBytes > MaxBytes {
		return fmt.Errorf("echo: a payload of %d bytes: want 0 to %d", p.RequestBytes, MaxBytes)
	}
	if p.ResponseBytes != p.RequestBytes {
		return fmt.Errorf("echo: %d bytes cannot come back as %d: give both directions one size", p.RequestBytes, p.ResponseBytes)
	}
	return nil
}

// Register hands the handler to a server.
func (Workload) Register(to grpc.ServiceRegistrar, _ workload.Parameters) {
	echopb.RegisterEchoServiceServer(to, handler{})
}

// NewCaller makes one client with a payload of its own.
func (Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	return newCaller(conn, job)
}

type handler struct {
	echopb.UnimplementedEchoServiceServer
}

// Echo answers with the very message that came: a handler owns its request.
func (handler) Echo(_ context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	in.Timestamp = time.Now().UnixNano()
	return in, nil
}
