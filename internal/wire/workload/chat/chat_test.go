package chat

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/chat/chatpb"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

// counted counts the streams that are opened.
type counted struct {
	grpc.ClientConnInterface
	streams int
}

func (c *counted) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	c.streams++
	return c.ClientConnInterface.NewStream(ctx, desc, method, options...)
}

func TestOneStreamForAllMessages(t *testing.T) {
	for _, sizes := range [][2]int{{0, 0}, {64, 64}, {64, 4096}, {4096, 0}} {
		p := workload.Parameters{RequestBytes: sizes[0], ResponseBytes: sizes[1]}
		conn := &counted{ClientConnInterface: workloadtest.Connect(t, Workload{}, p)}
		c := Workload{}.NewCaller(conn, workload.Job{Parameters: p, Seed: 7}).(*caller)
		for range 100 {
			if err := workloadtest.CallAndCheck(t, c); err != nil {
				t.Fatalf("%v: %v", sizes, err)
			}
		}
		if conn.streams != 1 || c.message.Number != 100 || len(c.answer.Data) != sizes[1] {
			t.Errorf("%v: %d streams, %d messages, %d bytes back", sizes, conn.streams, c.message.Number, len(c.answer.Data))
		}
	}
}

func TestWrongAnswersAreNoticed(t *testing.T) {
	for says, spoil := range map[string]func(*chatpb.Message){
		"sent message 1, got the answer to message 2": func(m *chatpb.Message) { m.Number++ },
		"63 bytes that differ":                        func(m *chatpb.Message) { m.Data = m.Data[1:] },
		"64 bytes that differ":                        func(m *chatpb.Message) { m.Data[9] ^= 1 },
	} {
		p := workload.Parameters{RequestBytes: 64, ResponseBytes: 64}
		conn := &workloadtest.AlteredConn{
			ClientConnInterface: workloadtest.Connect(t, Workload{}, p),
			Answer:              func(m any) { spoil(m.(*chatpb.Message)) },
		}
		c := Workload{}.NewCaller(conn, workload.Job{Parameters: p})
		workloadtest.ExpectError(t, says, workloadtest.CallAndCheck(t, c), says)
	}
}

// TestABrokenStreamIsReplaced asks for what the handler refuses, and then for
// what it does not.
func TestABrokenStreamIsReplaced(t *testing.T) {
	conn := &counted{ClientConnInterface: workloadtest.Connect(t, Workload{}, workload.Parameters{})}
	c := Workload{}.NewCaller(conn, workload.Job{}).(*caller)
	workloadtest.ExpectError(t, "a good message", workloadtest.CallAndCheck(t, c), "")
	tooMuch := uint32(workload.MaxBytes + 1)
	c.message.AnswerBytes = &tooMuch
	workloadtest.ExpectError(t, "a greedy one", workloadtest.CallAndCheck(t, c), "want 0 to")
	c.message.AnswerBytes = nil
	workloadtest.ExpectError(t, "a good one after it", workloadtest.CallAndCheck(t, c), "")
	if conn.streams != 2 {
		t.Errorf("%d streams, want 2", conn.streams)
	}
}

func TestCheck(t *testing.T) {
	for _, p := range []workload.Parameters{{RequestBytes: -1}, {ResponseBytes: workload.MaxBytes + 1}, {Settings: workloadtest.Settings(t, "every=3")}} {
		if (Workload{}).Check(p) == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}
