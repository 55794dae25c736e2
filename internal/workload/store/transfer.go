package store

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"wirelab.dev/internal/workload/store/storepb"
)

// Put takes a transfer and says what arrived.
func (handler) Put(stream grpc.ClientStreamingServer[storepb.Chunk, storepb.PutResponse]) error {
	var arrived tally
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&storepb.PutResponse{Bytes: arrived.bytes, Crc32C: arrived.crc})
		}
		if err != nil {
			return err
		}
		arrived.add(in.Data)
	}
}

// Get gives a transfer.
func (handler) Get(in *storepb.GetRequest, stream grpc.ServerStreamingServer[storepb.Chunk]) error {
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

// caller is one client.
type caller struct {
	stub     storepb.StoreServiceClient
	transfer transfer
	want     tally
	request  storepb.GetRequest
	arrived  tally // in the last call
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

// Check wants all of it at the other end.
func (c *caller) Check() error { return c.arrived.differsFrom(c.want) }

func (c *caller) put(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // leaves nothing behind of a stream that broke off
	stream, err := c.stub.Put(ctx)
	if err != nil {
		return err
	}
	var out storepb.Chunk
	for place := range c.transfer.chunks {
		out.Data = chunk(place, c.transfer.chunkBytes)
		if err := stream.Send(&out); err != nil {
			break // why it ended, the answer says
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
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c.arrived.add(in.Data)
	}
}
