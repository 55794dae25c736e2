// Package own is the workload `own`: a service of the program that measures.
//
// A Go test of another project contains its service as code. Package wirelabtest starts the test's
// program again as a worker, which gives the service's functions to New. In other programs, such as
// wirelab itself, the workload has only its name: so that a run of such a test can be read.
package own

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/workload"
)

// Name is the name of the workload.
const Name = "own"

// A Service holds the functions of both ends of a service.
type Service struct {
	// Register registers the service's handlers with a server.
	Register func(grpc.ServiceRegistrar)
	// Call makes one call. Several goroutines call it at once.
	Call func(context.Context, grpc.ClientConnInterface) error
}

// Workload is own. The zero value contains no service.
type Workload struct{ service *Service }

// New makes the workload of a service.
func New(s Service) Workload { return Workload{&s} }

// ErrNotHere says that the program contains no service of its own.
var ErrNotHere = errors.New("own: this program contains no service of its own: only a Go test can measure it, with package wirelab.dev/wirelabtest (docs/wirelabtest.md)")

// Info describes the workload. The number of operations is unknown: a service may have several.
func (Workload) Info() workload.Info {
	return workload.Info{Name: Name, Summary: "a generated service of your own Go project: only in its tests, with package wirelab.dev/wirelabtest"}
}

// Check returns an error for sizes and options, because the service's own code decides about its messages.
func (w Workload) Check(p workload.Parameters) error { return p.Check(w, 0, nil) }

// Register registers the service. Without a service, it registers a name that makes Listen fail.
func (w Workload) Register(to grpc.ServiceRegistrar, _ workload.Parameters) {
	if w.service == nil {
		to.RegisterService(&grpc.ServiceDesc{ServiceName: ErrNotHere.Error(), HandlerType: (*error)(nil)}, struct{}{})
		return
	}
	w.service.Register(to)
}

// NewCaller makes one client.
func (w Workload) NewCaller(conn grpc.ClientConnInterface, _ workload.Job) workload.Caller {
	return caller{w.service, conn}
}

type caller struct {
	service *Service
	conn    grpc.ClientConnInterface
}

// Call makes the service's call.
func (c caller) Call(ctx context.Context) error {
	if c.service == nil {
		return status.Error(codes.Unimplemented, ErrNotHere.Error())
	}
	return c.service.Call(ctx, c.conn)
}
