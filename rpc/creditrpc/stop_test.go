package creditrpc

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/test/bufconn"
)

// A gatedService has calls that end when their gate opens, whatever their context says.
type gatedService struct {
	testgrpc.UnimplementedTestServiceServer
	entered, gate chan struct{}
}

func (s gatedService) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	close(s.entered)
	<-s.gate
	return &testgrpc.Empty{}, nil
}

// TestGracefulStopAfterLostConnection checks that neither GracefulStop nor Serve returns
// while the handler of a lost connection runs.
func TestGracefulStopAfterLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := gatedService{entered: make(chan struct{}), gate: make(chan struct{})}
		s, lis := NewServer(), bufconn.Listen(1<<16)
		testgrpc.RegisterTestServiceServer(s, service)
		served, stopped := make(chan error, 1), make(chan struct{})
		go func() { served <- s.Serve(lis) }()
		client := dial(t, "unused:1", WithDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		go func() { _, _ = testgrpc.NewTestServiceClient(client).EmptyCall(t.Context(), &testgrpc.Empty{}) }()
		<-service.entered
		_ = client.Close()
		go func() {
			s.GracefulStop()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case err := <-served:
			t.Errorf("Serve returned %v while a handler ran", err)
			served <- nil
		case <-stopped:
			t.Error("GracefulStop returned while a handler ran")
		default:
		}
		close(service.gate)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-stopped
	})
}
