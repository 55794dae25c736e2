package creditrpc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// BenchmarkUnaryCalls makes calls of many callers over one connection, both ends in one
// process: for what a call allocates, and where its time goes. Study cures compares.
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

// BenchmarkSlowReader makes calls by 99 callers, by turns with and without a stream beside them
// that the server fills and nobody reads. What counts is p99-ratio: how much longer their P99 is
// with it.
func BenchmarkSlowReader(b *testing.B) {
	client := testgrpc.NewTestServiceClient(dial(b, serve(b, NewServer(), new(service))))
	in := request(make([]byte, 1000))
	full := &testgrpc.StreamingOutputCallRequest{}
	for range 10_000 {
		full.ResponseParameters = append(full.ResponseParameters, &testgrpc.ResponseParameters{Size: 64 << 10})
	}
	var took [2][]time.Duration // without, with
	var mu sync.Mutex
	for b.Loop() {
		for with := range took {
			ctx, cancel := context.WithCancel(b.Context())
			if with == 1 {
				if _, err := client.StreamingOutputCall(ctx, full); err != nil {
					b.Fatal(err)
				}
			}
			var all sync.WaitGroup
			for range 99 {
				all.Go(func() {
					own := make([]time.Duration, 0, 200)
					for range 200 {
						began := time.Now()
						if _, err := client.UnaryCall(b.Context(), in); err != nil {
							b.Error(err)
							return
						}
						own = append(own, time.Since(began))
					}
					mu.Lock()
					defer mu.Unlock()
					took[with] = append(took[with], own...)
				})
			}
			all.Wait()
			cancel()
		}
	}
	p99 := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)*99/100])
	}
	b.ReportMetric(p99(took[1])/p99(took[0]), "p99-ratio")
}
