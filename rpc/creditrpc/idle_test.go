package creditrpc

import (
	"context"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// TestIdleConnections holds connections that have each made a call, both ends in this process,
// and compares what they keep with what grpc-go's keep. CREDITRPC_IDLE=10000 holds as many.
func TestIdleConnections(t *testing.T) {
	count := 300
	if text := os.Getenv("CREDITRPC_IDLE"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	address := serve(t, NewServer(), new(service))
	own := idleMemory(t, count, func() (grpc.ClientConnInterface, func() error) {
		c, err := NewClient(address)
		if err != nil {
			t.Fatal(err)
		}
		return c, c.Close
	})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, new(service))
	go func() { _ = s.Serve(lis) }() // ends with Stop
	defer s.Stop()
	theirs := idleMemory(t, count, func() (grpc.ClientConnInterface, func() error) {
		c, err := grpc.NewClient("passthrough:///"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		return c, c.Close
	})
	t.Logf("%d connections keep %d bytes each, both ends; grpc-go's %d", count, own, theirs)
	if own > theirs {
		t.Errorf("an idle connection keeps %d bytes, and grpc-go's %d", own, theirs)
	}
}

// idleMemory returns the bytes of heap and stacks that a connection keeps long after its call.
func idleMemory(t *testing.T, count int, open func() (grpc.ClientConnInterface, func() error)) int64 {
	t.Helper()
	before := memory()
	var closers []func() error
	for range count {
		c, end := open()
		closers = append(closers, end)
		if _, err := testgrpc.NewTestServiceClient(c).UnaryCall(context.Background(), request([]byte("hello"))); err != nil {
			t.Fatal(err)
		}
	}
	kept := int64(1 << 62)
	for range 20 { // the least of some looks: stacks shrink, and pools are emptied, by and by
		kept = min(kept, memory()-before)
		time.Sleep(5 * time.Millisecond)
	}
	for _, end := range closers {
		_ = end()
	}
	return kept / int64(count)
}

func memory() int64 {
	runtime.GC()
	runtime.GC() // what sync.Pool kept from the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
