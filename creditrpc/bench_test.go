package creditrpc

import (
	"fmt"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// BenchmarkUnaryCalls makes calls of many callers over one connection, both ends in one
// process: for what a call allocates, and where its time goes. Study creditrpc compares.
func BenchmarkUnaryCalls(b *testing.B) {
	for _, c := range []struct{ bytes, callers int }{{64, 1}, {64, 50}, {4 << 10, 50}, {64 << 10, 500}} {
		b.Run(fmt.Sprintf("bytes=%d/callers=%d", c.bytes, c.callers), func(b *testing.B) {
			client := testgrpc.NewTestServiceClient(dial(b, serve(b, NewServer(), new(service))))
			in := request(make([]byte, c.bytes))
			b.ReportAllocs()
			b.SetParallelism(c.callers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := client.UnaryCall(b.Context(), in); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
