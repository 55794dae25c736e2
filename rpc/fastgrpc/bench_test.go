package fastgrpc

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

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

// BenchmarkSlowReader makes calls by 99 callers, by turns with and without a stream beside them
// that the server fills and nobody reads. What counts is p99-ratio: how much longer their P99 is
// with it.
func BenchmarkSlowReader(b *testing.B) {
	client := pairs[0].start(b)
	in := request(make([]byte, 1000))
	if _, err := client.UnaryCall(b.Context(), in, grpc.WaitForReady(true)); err != nil {
		b.Fatal(err)
	}
	full := &testgrpc.StreamingOutputCallRequest{}
	for range 10_000 {
		full.ResponseParameters = append(full.ResponseParameters, &testgrpc.ResponseParameters{Size: 64 << 10})
	}
	var took [2][]time.Duration // without, with
	for b.Loop() {
		for with := range took {
			ctx, cancel := context.WithCancel(b.Context())
			if with == 1 {
				if _, err := client.StreamingOutputCall(ctx, full); err != nil {
					b.Fatal(err)
				}
			}
			took[with] = append(took[with], timeCalls(b, client, in)...)
			cancel()
		}
	}
	p99 := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)*99/100])
	}
	b.ReportMetric(p99(took[1])/p99(took[0]), "p99-ratio")
}

// timeCalls makes 200 calls by each of 99 callers, and returns how long each took.
func timeCalls(b *testing.B, client testgrpc.TestServiceClient, in *testgrpc.SimpleRequest) (took []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 99 {
		all.Go(func() {
			own := make([]time.Duration, 0, 200)
			for range cap(own) {
				began := time.Now()
				if _, err := client.UnaryCall(b.Context(), in); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	all.Wait()
	return took
}
