// Package store is the workload `store`: transfers of many chunks, up in a client
// stream or down in a server stream.
//
// A call is one whole transfer. A chunk's position determines its data (workload.Pattern), and the
// receiver computes a checksum, so that a call fails if a chunk is lost, changed or out of order.
// The checksum is CRC-32C, for which CPUs have an instruction. The server stores nothing.
package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/store/storepb"
)

// Workload is store. The zero value is ready.
type Workload struct{}

var (
	_ workload.Streaming = Workload{}
	_ workload.Pooling   = Workload{}
)

const (
	operationKey = "op"
	chunkKey     = "chunk"
	chunksKey    = "chunks"

	put = "put"
	get = "get"
)

// These limits bound a transfer. A chunk stays below the message limit of every stack.
const (
	maxChunkBytes = workload.MaxBytes
	maxChunks     = 1 << 20
)

// Info describes the workload. Its options determine the message sizes.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name: "store", Summary: "a transfer in chunks, up (put) or down (get): 16 KiB × 1,024 per call",
		Options: []scenario.Option{
			{Key: operationKey, Role: scenario.OperationRole, Values: []string{put, get}, Default: put, Help: "put: the client streams; get: the server streams"},
			{Key: chunkKey, Default: "16KiB", Parse: scenario.BytesUpTo(maxChunkBytes), Help: "SIZE: bytes of data in a chunk"},
			{Key: chunksKey, Default: "1024", Parse: scenario.IntBetween(1, maxChunks), Help: "N: chunks in a transfer"},
		},
		Operations: len(storepb.StoreService_ServiceDesc.Streams),
	}
}

// A transfer describes the chunks that one call sends.
type transfer struct {
	operation  string
	chunkBytes int
	chunks     int
	pooled     bool // receive all chunks into one message
}

func (w Workload) readOptions(p workload.Parameters) transfer {
	options := workload.ReadOptions(w, p)
	return transfer{
		operation:  options.Text(operationKey),
		chunkBytes: scenario.Value[int](options, chunkKey),
		chunks:     scenario.Value[int](options, chunksKey),
		pooled:     p.PooledMessages,
	}
}

// Check refuses sizes, because the options determine the size of a call.
func (w Workload) Check(p workload.Parameters) error {
	return p.Check(w, 0, nil)
}

// Streams returns the description of the stream that the operation opens.
func (w Workload) Streams(p workload.Parameters) []*grpc.StreamDesc {
	t := w.readOptions(p)
	for i, desc := range storepb.StoreService_ServiceDesc.Streams {
		if desc.ClientStreams == (t.operation == put) {
			return []*grpc.StreamDesc{&storepb.StoreService_ServiceDesc.Streams[i]}
		}
	}
	return nil
}

// PoolsMessages implements workload.Pooling: after a chunk was counted, no code uses it.
func (Workload) PoolsMessages() {}

// Register implements workload.Workload.
func (Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	storepb.RegisterStoreServiceServer(to, &handler{pooled: p.PooledMessages})
}

// NewCaller makes one client.
func (w Workload) NewCaller(conn grpc.ClientConnInterface, job workload.Job) workload.Caller {
	t := w.readOptions(job.Parameters)
	return &caller{
		stub: storepb.NewStoreServiceClient(conn), transfer: t, want: t.expectedTally(),
		request: storepb.GetRequest{Chunks: uint32(t.chunks), ChunkBytes: uint32(t.chunkBytes)},
	}
}

func chunk(place, sizeBytes int) []byte { return workload.Pattern(uint64(place), sizeBytes) }

type chunkTally struct {
	bytes uint64
	crc   uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (t *chunkTally) add(data []byte) {
	t.bytes += uint64(len(data))
	t.crc = crc32.Update(t.crc, castagnoli, data)
}

func (t transfer) expectedTally() chunkTally {
	var all chunkTally
	for place := range t.chunks {
		all.add(chunk(place, t.chunkBytes))
	}
	return all
}

type handler struct {
	storepb.UnimplementedStoreServiceServer
	pooled bool
	// chunks holds unused chunk messages. vtprotobuf's pool would be unsafe: a chunk may point into
	// a transport's buffer, which another user of the pool would overwrite.
	chunks sync.Pool
}

// Put receives a transfer. It answers with the numbers of chunks and bytes, and the checksum.
func (h *handler) Put(stream grpc.ClientStreamingServer[storepb.Chunk, storepb.PutResponse]) error {
	receive := stream.Recv
	if h.pooled {
		in, _ := h.chunks.Get().(*storepb.Chunk)
		if in == nil {
			in = &storepb.Chunk{}
		}
		defer h.chunks.Put(in)
		receive = receiveInto(in, stream.RecvMsg)
	}
	arrived, err := receiveAll(receive)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&storepb.PutResponse{Bytes: arrived.bytes, Crc32C: arrived.crc})
}

// receiveInto returns a stream's Recv that receives every chunk into the same message.
func receiveInto(in *storepb.Chunk, receive func(any) error) func() (*storepb.Chunk, error) {
	return func() (*storepb.Chunk, error) { return in, receive(in) }
}

// receiveAll receives all chunks and counts them, but keeps none.
func receiveAll(receive func() (*storepb.Chunk, error)) (chunkTally, error) {
	var arrived chunkTally
	for {
		in, err := receive()
		if errors.Is(err, io.EOF) {
			return arrived, nil
		}
		if err != nil {
			return arrived, err
		}
		arrived.add(in.Data)
	}
}

// Get sends a transfer. It limits the size that a client may request.
func (*handler) Get(in *storepb.GetRequest, stream grpc.ServerStreamingServer[storepb.Chunk]) error {
	if in.Chunks > maxChunks || in.ChunkBytes > maxChunkBytes {
		return status.Errorf(codes.InvalidArgument, "the transfer has %d chunks of %d bytes: the limit is %d chunks of %d bytes", in.Chunks, in.ChunkBytes, maxChunks, maxChunkBytes)
	}
	var out storepb.Chunk
	for place := range int(in.Chunks) {
		out.Data = chunk(place, int(in.ChunkBytes))
		if err := stream.Send(&out); err != nil {
			return err
		}
	}
	return nil
}

type caller struct {
	stub     storepb.StoreServiceClient
	transfer transfer
	want     chunkTally
	request  storepb.GetRequest
	chunk    storepb.Chunk // the message for all received chunks, if pooled is set
	arrived  chunkTally    // counts of the chunks received in the last call
}

// Call makes one transfer.
func (c *caller) Call(ctx context.Context) error {
	c.arrived = chunkTally{}
	if c.transfer.operation == put {
		return c.put(ctx)
	}
	return c.get(ctx)
}

// Check checks that the whole transfer arrived.
func (c *caller) Check() error {
	switch got := c.arrived; {
	case got.bytes != c.want.bytes:
		return fmt.Errorf("store: %d of %d bytes arrived", got.bytes, c.want.bytes)
	case got.crc != c.want.crc:
		return fmt.Errorf("store: the %d bytes that arrived have the wrong checksum %08x, want %08x", got.bytes, got.crc, c.want.crc)
	}
	return nil
}

func (c *caller) put(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream if it has not ended
	stream, err := c.stub.Put(ctx)
	if err != nil {
		return err
	}
	var out storepb.Chunk
	for place := range c.transfer.chunks {
		out.Data = chunk(place, c.transfer.chunkBytes)
		if err := stream.Send(&out); err != nil {
			break // CloseAndRecv returns the error
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return err
	}
	c.arrived = chunkTally{bytes: answer.Bytes, crc: answer.Crc32C}
	return nil
}

func (c *caller) get(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.stub.Get(ctx, &c.request)
	if err != nil {
		return err
	}
	receive := stream.Recv
	if c.transfer.pooled {
		receive = receiveInto(&c.chunk, stream.RecvMsg)
	}
	c.arrived, err = receiveAll(receive)
	return err
}
