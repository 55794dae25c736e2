package tcp

import (
	"context"
	"testing"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// echo is a service with one operation, which plain calls can reach.
type echo struct {
	echopb.UnimplementedEchoServiceServer
}

func (echo) Echo(_ context.Context, in *echopb.Payload) (*echopb.Payload, error) { return in, nil }

// startEcho serves echo until the test ends.
func startEcho(t testing.TB, variant string) (address string) {
	t.Helper()
	server, err := Stack{}.NewServer(parse(t, variant))
	if err != nil {
		t.Fatal(err)
	}
	echopb.RegisterEchoServiceServer(server, echo{})
	return serve(t, server)
}

// serve has the server listen and serve until the test ends.
func serve(t testing.TB, server stack.Server) (address string) {
	t.Helper()
	bound, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return bound.String()
}

// caller makes one echo call.
type caller func(*echopb.Payload) (*echopb.Payload, error)

func callerOf(t testing.TB, client stack.Client) caller {
	stub := echopb.NewEchoServiceClient(client)
	ctx := t.Context()
	return func(in *echopb.Payload) (*echopb.Payload, error) { return stub.Echo(ctx, in) }
}
