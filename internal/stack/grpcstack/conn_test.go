package grpcstack

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/failure"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/workload/echo/echopb"
)

// TestCausesOutliveGRPCGo takes the server away from a client that keeps its
// connection: its attempts to connect again fail with a text that quotes the
// kernel, and with the kernel's error behind it.
func TestCausesOutliveGRPCGo(t *testing.T) {
	for _, variant := range []string{"grpc", "grpc:tls=on"} {
		server, err := Stack{}.NewServer(parse(t, variant))
		if err != nil {
			t.Fatal(err)
		}
		echopb.RegisterEchoServiceServer(server, &whoAsks{calls: map[string]int{}})
		address, err := server.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve() }() // ends with Close
		target := stack.Target{Address: address.String()}
		target.Trust.SkipVerify = true
		stub := echopb.NewEchoServiceClient(dialTest(t, variant, target))
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for failure.Of(err) != failure.Refused && ctx.Err() == nil { // the first may meet the connection's end
			_, err = stub.Echo(ctx, &echopb.Payload{})
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: calls to a server that is gone end with %v", variant, err)
		}
	}
}
