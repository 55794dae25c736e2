package rest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// TestPoolOpensItsConnections wants all connections before the first call, and no others
// for the calls.
func TestPoolOpensItsConnections(t *testing.T) {
	const size, calls = 32, 10
	all := make(chan struct{}) // closed when as many calls are in handlers as there are connections
	var inHandlers sync.WaitGroup
	inHandlers.Add(size)
	go func() { inHandlers.Wait(); close(all) }()
	address := serve(t, &scripted{unary: func(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
		if in.Count == 0 {
			inHandlers.Done()
			select {
			case <-all:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return &testpb.TestResponse{}, nil
	}})
	client, dialer := dialCounted(t, address, size)
	want := conn.Counts{Opened: size, Open: size}
	if got := dialer.Counts(); got != want {
		t.Errorf("before the first call: %+v, want %+v", got, want)
	}
	stub := testpb.NewTestServiceClient(client)
	ctx := bounded(t)
	var workers sync.WaitGroup
	for range size {
		workers.Go(func() {
			for i := range int32(calls) {
				if _, err := stub.Unary(ctx, &testpb.TestRequest{Count: i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	got := dialer.Counts()
	// net/http gives up a connection whose writer did not run for 50 ms after the answer
	// had come, as on a busy machine, and opens another when it needs one.
	if given := got.Opened - got.Open; got.Open > size || given > size/4 {
		t.Errorf("after the calls: %+v, want %+v", got, want)
	}
}

// TestOpenIsBounded dials a peer that takes connections and says nothing.
func TestOpenIsBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = REST.NewClient(ctx, scenario.Variant{Stack: "rest"}, stack.Target{Address: listener.Addr().String(), Connections: 3})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("NewClient returned %v", err)
	}
}
