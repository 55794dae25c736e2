package rest

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack/stacktest/testpb"
)

// TestCloseWaitsForConnectionsNotHandlers has many idle connections, and one
// call whose handler ends long after Close.
func TestCloseWaitsForConnectionsNotHandlers(t *testing.T) {
	s := newServer()
	running, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	testpb.RegisterTestServiceServer(s, &scripted{unary: func(context.Context, *testpb.TestRequest) (*testpb.TestResponse, error) {
		close(running)
		<-release
		return &testpb.TestResponse{}, nil
	}})
	address, err := s.Listen(bounded(t), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	const connections = 200
	stub := testpb.NewTestServiceClient(dial(t, address.String(), connections))
	go func() {
		_, err := stub.Unary(bounded(t), &testpb.TestRequest{})
		ended <- err
	}()
	<-running
	if left := s.resident.count.Load(); left != connections-1 {
		t.Errorf("%d of %d connections are not in a handler, want all but one", left, connections)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left := s.resident.count.Load(); left != 0 {
		t.Errorf("Close left %d connections behind", left)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("the call ended with %v", err)
	}
	close(release)
}
