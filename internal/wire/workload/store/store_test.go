package store

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/store/storepb"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

func parameters(t testing.TB, text string) workload.Parameters {
	t.Helper()
	return workload.Parameters{Settings: workloadtest.Settings(t, text)}
}

func TestTransfers(t *testing.T) {
	for _, text := range []string{
		"op=put", "op=get", "op=put,chunk=1,chunks=1", "op=get,chunk=1,chunks=3", "op=put,chunk=1MiB,chunks=3", "op=get,chunk=1MiB,chunks=3",
	} {
		for _, pooled := range []bool{false, true} {
			p := parameters(t, text)
			p.PooledMessages = pooled
			c := Workload{}.NewCaller(workloadtest.Connect(t, Workload{}, p), workload.Job{Parameters: p})
			for range 2 {
				workloadtest.ExpectError(t, text, workloadtest.CallAndCheck(t, c), "")
			}
		}
	}
}

// received is a stream that notes into which messages it was asked to receive.
type received struct {
	grpc.ClientStream
	into map[any]bool
}

func (r *received) RecvMsg(m any) error {
	r.into[m] = true
	return r.ClientStream.RecvMsg(m)
}

// noting is a connection whose streams are received.
type noting struct {
	grpc.ClientConnInterface
	into map[any]bool
}

func (n noting) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := n.ClientConnInterface.NewStream(ctx, desc, method, options...)
	return &received{stream, n.into}, err
}

// TestPooledMessages counts the messages that transfers are received into.
func TestPooledMessages(t *testing.T) {
	for pooled, want := range map[bool]int{false: 2 * (5 + 1), true: 1} { // the last of a stream is its end
		p := parameters(t, "op=get,chunk=1KiB,chunks=5")
		p.PooledMessages = pooled
		conn := noting{workloadtest.Connect(t, Workload{}, p), map[any]bool{}}
		c := Workload{}.NewCaller(conn, workload.Job{Parameters: p})
		for range 2 {
			workloadtest.ExpectError(t, "get", workloadtest.CallAndCheck(t, c), "")
		}
		if len(conn.into) != want {
			t.Errorf("pooled %v: two transfers of 5 chunks were received into %d messages, want %d", pooled, len(conn.into), want)
		}
	}
}

// TestWhatIsLostIsNoticed spoils chunks on their way down, and the server's
// account on its way back.
func TestWhatIsLostIsNoticed(t *testing.T) {
	seen := 0
	swap := func(m any) { // the second chunk comes twice
		if seen++; seen == 3 {
			m.(*storepb.Chunk).Data = chunk(1, 1024)
		}
	}
	for _, test := range []struct {
		text  string
		spoil func(any)
		says  string
	}{
		{"op=get,chunk=1KiB,chunks=5", func(m any) { m.(*storepb.Chunk).Data[7] ^= 1 }, "the wrong checksum"},
		{"op=get,chunk=1KiB,chunks=5", func(m any) { m.(*storepb.Chunk).Data = nil }, "0 of 5120 bytes arrived"},
		{"op=get,chunk=1KiB,chunks=5", swap, "the wrong checksum"},
		{"op=put,chunk=1KiB,chunks=5", func(m any) { m.(*storepb.PutResponse).Bytes-- }, "5119 of 5120 bytes arrived"},
		{"op=put,chunk=1KiB,chunks=5", func(m any) { m.(*storepb.PutResponse).Crc32C++ }, "the wrong checksum"},
	} {
		p := parameters(t, test.text)
		conn := &workloadtest.AlteredConn{ClientConnInterface: workloadtest.Connect(t, Workload{}, p), Answer: test.spoil}
		c := Workload{}.NewCaller(conn, workload.Job{Parameters: p})
		workloadtest.ExpectError(t, test.text, workloadtest.CallAndCheck(t, c), test.says)
	}
}

func TestStreams(t *testing.T) {
	for text, want := range map[string]string{"op=put": "Put", "op=get": "Get", "": "Put"} {
		streams := Workload{}.Streams(parameters(t, text))
		if len(streams) != 1 || streams[0].StreamName != want {
			t.Errorf("%q opens %v, want %s", text, streams, want)
		}
	}
}

func TestStrangersAreBounded(t *testing.T) {
	conn := workloadtest.Connect(t, Workload{}, workload.Parameters{})
	stub := storepb.NewStoreServiceClient(conn)
	for _, request := range []*storepb.GetRequest{{Chunks: maxChunks + 1, ChunkBytes: 1}, {Chunks: 1, ChunkBytes: maxChunkBytes + 1}} {
		stream, err := stub.Get(t.Context(), request, grpc.WaitForReady(true))
		if err == nil {
			_, err = stream.Recv()
		}
		workloadtest.ExpectError(t, request.String(), err, "the limit is")
	}
}

func TestCheck(t *testing.T) {
	for text, says := range map[string]string{
		"chunk=4KiB,chunks=7": "", "op=get,chunk=16KiB": "",
		"chunk=0": "want 1 B to", "chunk=16MiB": "want 1 B to", "chunks=0": "whole number from 1", "chunk=x": "whole bytes",
	} {
		workloadtest.ExpectError(t, text, Workload{}.Check(parameters(t, text)), says)
	}
}
