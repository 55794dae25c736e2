package fastgrpc

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// BenchmarkUnary compares the libraries in one process, for a quick look. Publish only
// figures of processes that are pinned to separate CPUs.
func BenchmarkUnary(b *testing.B) {
	all := append([]pair{{"grpc-go to grpc-go", theirServer, theirClient}}, pairs...)
	for _, size := range []int{64, 4096} {
		for _, callers := range []int{1, 50} {
			for _, p := range all {
				b.Run(fmt.Sprintf("size=%d/callers=%d/%s", size, callers, p.name), func(b *testing.B) {
					benchUnary(b, p.start(b), size, callers)
				})
			}
		}
	}
}

func benchUnary(b *testing.B, c testgrpc.TestServiceClient, size, callers int) {
	in := request(bytes.Repeat([]byte{1}, size))
	ctx := b.Context()
	if _, err := c.UnaryCall(ctx, in, grpc.WaitForReady(true)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var running sync.WaitGroup
	for i := range callers {
		running.Add(1)
		go func() {
			defer running.Done()
			for range (b.N + i) / callers {
				if _, err := c.UnaryCall(ctx, in); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	running.Wait()
}
