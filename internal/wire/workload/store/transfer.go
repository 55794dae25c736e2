package store

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/workload/store/storepb"
)

type handler struct {
	storepb.UnimplementedStoreServiceServer
	pooled bool
	// chunks holds chunks of finished transfers. It is not the pool that
	// vtprotobuf generates, because a chunk's memory may be reused only with the
	// codec that it came from: the chunk may point into a transport's buffer, which
	// another codec would overwrite.
	chunks sync.Pool
}

// Put receives a transfer and answers with its tally.
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
	arrived, err := tallyOf(receive)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&storepb.PutResponse{Bytes: arrived.bytes, Crc32C: arrived.crc})
}

// receiveInto returns a stream's Recv that receives every chunk into the same message.
func receiveInto(in *storepb.Chunk, receive func(any) error) func() (*storepb.Chunk, error) {
	return func() (*storepb.Chunk, error) { return in, receive(in) }
}

// tallyOf receives all chunks, and keeps none of them.
func tallyOf(receive func() (*storepb.Chunk, error)) (tally, error) {
	var arrived tally
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

// Get sends a transfer.
func (*handler) Get(in *storepb.GetRequest, stream grpc.ServerStreamingServer[storepb.Chunk]) error {
	if err := checkSizes(in); err != nil {
		return err
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

// A caller is one client.
type caller struct {
	stub     storepb.StoreServiceClient
	transfer transfer
	want     tally
	request  storepb.GetRequest
	chunk    storepb.Chunk // with pooling, all chunks are received into it
	arrived  tally         // in the last call
}

func newCaller(conn grpc.ClientConnInterface, t transfer) *caller {
	return &caller{
		stub: storepb.NewStoreServiceClient(conn), transfer: t, want: t.tally(),
		request: storepb.GetRequest{Chunks: uint32(t.chunks), ChunkBytes: uint32(t.chunkBytes)},
	}
}

// Call makes one transfer.
func (c *caller) Call(ctx context.Context) error {
	c.arrived = tally{}
	if c.transfer.operation == put {
		return c.put(ctx)
	}
	return c.get(ctx)
}

// Check checks that the whole transfer arrived.
func (c *caller) Check() error { return c.arrived.differsFrom(c.want) }

func (c *caller) put(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // frees a stream that ended early
	stream, err := c.stub.Put(ctx)
	if err != nil {
		return err
	}
	var out storepb.Chunk
	for place := range c.transfer.chunks {
		out.Data = chunk(place, c.transfer.chunkBytes)
		if err := stream.Send(&out); err != nil {
			break // CloseAndRecv returns the reason
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return err
	}
	c.arrived = tally{bytes: answer.Bytes, crc: answer.Crc32C}
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
	c.arrived, err = tallyOf(receive)
	return err
}
