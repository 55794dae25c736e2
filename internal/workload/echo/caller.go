package echo

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/echo/echopb"
)

// caller is one client. It reuses one request, since no stack keeps a request after
// its call.
type caller struct {
	stub    echopb.EchoServiceClient
	request *echopb.Payload
	answer  *echopb.Payload // of the last call
}

func newCaller(conn grpc.ClientConnInterface, job workload.Job) *caller {
	c := &caller{
		stub:    echopb.NewEchoServiceClient(conn),
		request: &echopb.Payload{Data: job.Filling()},
	}
	if job.ResponseBytes != job.RequestBytes {
		c.request.AnswerBytes = proto.Uint32(uint32(job.ResponseBytes))
	}
	return c
}

// Call sends the payload under its next id, beginning with 1.
func (c *caller) Call(ctx context.Context) error {
	c.request.Id++
	c.request.Timestamp = time.Now().UnixNano()
	answer, err := c.stub.Echo(ctx, c.request)
	c.answer = answer
	return err
}

// Check checks that the answer has the data that the last call asked for.
func (c *caller) Check() error {
	sent, got := c.request, c.answer
	want := sent.Data
	if sent.AnswerBytes != nil {
		want = workload.Pattern(sent.Id, int(*sent.AnswerBytes))
	}
	switch {
	case got.GetId() != sent.Id:
		return fmt.Errorf("echo: the answer to id %d has id %d", sent.Id, got.GetId())
	case len(got.Data) != len(want):
		return fmt.Errorf("echo: got %[2]d bytes, want %[1]d", len(want), len(got.Data))
	case !bytes.Equal(got.Data, want):
		return fmt.Errorf("echo: %d bytes came back changed, the first at %d", len(want), firstDifference(want, got.Data))
	}
	return nil
}

// firstDifference returns the first index at which two slices of equal length differ.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
