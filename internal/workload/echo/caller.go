package echo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/echo/echopb"
)

// caller is one client. It keeps one request for its whole life: no stack holds
// on to a request after its call has ended.
type caller struct {
	stub    echopb.EchoServiceClient
	request *echopb.Payload
	answer  *echopb.Payload // of the last call
}

func newCaller(conn grpc.ClientConnInterface, job workload.Job) *caller {
	return &caller{
		stub:    echopb.NewEchoServiceClient(conn),
		request: &echopb.Payload{Data: filling(job)},
	}
}

// filling does not compress, and differs from client to client, so that an
// answer to someone else's call is noticed.
func filling(job workload.Job) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], job.Seed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(job.Client))
	data := make([]byte, job.RequestBytes)
	_, _ = rand.NewChaCha8(seed).Read(data) // never fails
	return data
}

// Call sends the payload under its next id, beginning with 1.
func (c *caller) Call(ctx context.Context) error {
	c.request.Id++
	c.request.Timestamp = time.Now().UnixNano()
	answer, err := c.stub.Echo(ctx, c.request)
	c.answer = answer
	return err
}

// Check wants the payload of the last call back.
func (c *caller) Check() error {
	switch sent, got := c.request, c.answer; {
	case got.GetId() != sent.Id:
		return fmt.Errorf("echo: the answer to id %d has id %d", sent.Id, got.GetId())
	case len(got.Data) != len(sent.Data):
		return fmt.Errorf("echo: %d bytes came back as %d", len(sent.Data), len(got.Data))
	case !bytes.Equal(got.Data, sent.Data):
		return fmt.Errorf("echo: %d bytes came back changed, the first at %d", len(sent.Data), firstDifference(sent.Data, got.Data))
	}
	return nil
}

// firstDifference is the index at which two slices of one length part.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
