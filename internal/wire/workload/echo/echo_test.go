package echo

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// noWire hands each call straight to the registered handler, and lets a test
// spoil the answer on its way back.
type noWire struct {
	stack.Methods
	sent  []*echopb.Payload
	spoil func(*echopb.Payload)
	fails error
}

func (w *noWire) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if w.fails != nil {
		return w.fails
	}
	request := proto.Clone(args.(proto.Message))
	w.sent = append(w.sent, proto.Clone(request).(*echopb.Payload))
	operation := w.Find(method)
	answer, err := operation.Unary.Handler(operation.Service, ctx, func(in any) error {
		proto.Merge(in.(proto.Message), request)
		return nil
	}, nil)
	if err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), answer.(proto.Message))
	if w.spoil != nil {
		w.spoil(reply.(*echopb.Payload))
	}
	return nil
}

func (*noWire) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("echo has no streams")
}

func job(sizeBytes int) workload.Job {
	return workload.Job{Parameters: workload.Parameters{RequestBytes: sizeBytes, ResponseBytes: sizeBytes}, Seed: 7}
}

func connect(t *testing.T, j workload.Job) (*noWire, *caller) {
	t.Helper()
	wire := &noWire{}
	Workload{}.Register(wire, j.Parameters)
	if err := wire.Err(); err != nil {
		t.Fatal(err)
	}
	if len(wire.InOrder()) != (Workload{}).Info().Operations {
		t.Fatalf("%d operations are registered, %d announced", len(wire.InOrder()), Workload{}.Info().Operations)
	}
	return wire, newCaller(wire, j)
}

func TestEcho(t *testing.T) {
	for _, sizeBytes := range []int{0, 1, 64, 64 << 10} {
		wire, c := connect(t, job(sizeBytes))
		begin := time.Now().UnixNano()
		for range 3 {
			if err := c.Call(t.Context()); err != nil {
				t.Fatalf("%d bytes: %v", sizeBytes, err)
			}
			if err := c.Check(); err != nil {
				t.Fatalf("%d bytes: %v", sizeBytes, err)
			}
		}
		for i, sent := range wire.sent {
			if sent.Id != uint64(i+1) || len(sent.Data) != sizeBytes || sent.Timestamp < begin {
				t.Errorf("call %d sent id %d, %d bytes, timestamp %d", i, sent.Id, len(sent.Data), sent.Timestamp)
			}
		}
		if last := wire.sent[2]; c.answer.Timestamp < last.Timestamp {
			t.Errorf("the handler left the client's timestamp %d: %d", last.Timestamp, c.answer.Timestamp)
		}
	}
}

// settings are written as key=value.
func settings(texts ...string) []scenario.Setting {
	var all []scenario.Setting
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		all = append(all, scenario.Setting{Key: key, Value: value})
	}
	return all
}

// TestSymmetricRequestIsThePublishedOne keeps the three fields of the published
// study, and nothing else, on the wire.
func TestSymmetricRequestIsThePublishedOne(t *testing.T) {
	wire, c := connect(t, job(64))
	if err := c.Call(t.Context()); err != nil {
		t.Fatal(err)
	}
	const tags, idBytes, lengthByte, timestampBytes = 3, 1, 1, 9
	if size := proto.Size(wire.sent[0]); size != 64+tags+idBytes+lengthByte+timestampBytes {
		t.Errorf("the request takes %d bytes: %v", size, wire.sent[0])
	}
}

func TestAnswerOfAnotherSize(t *testing.T) {
	for _, sizes := range [][2]int{{64, 4096}, {4096, 64}, {64, 0}, {0, 1 << 20}} {
		j := job(sizes[0])
		j.ResponseBytes = sizes[1]
		wire, c := connect(t, j)
		var last []byte
		for range 3 {
			if err := c.Call(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Check(); err != nil {
				t.Errorf("%v: %v", sizes, err)
			}
			if len(c.answer.Data) != sizes[1] || len(c.request.Data) != sizes[0] {
				t.Errorf("%v: %d bytes out, %d back", sizes, len(c.request.Data), len(c.answer.Data))
			}
			if sizes[1] > 0 && bytes.Equal(c.answer.Data, last) {
				t.Errorf("%v: two ids are answered with the same bytes", sizes)
			}
			last = c.answer.Data
		}
		wire.spoil = func(p *echopb.Payload) { p.Data = workload.Pattern(p.Id+1, sizes[1]) }
		if err := c.Call(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); sizes[1] > 0 && err == nil {
			t.Errorf("%v: the answer to another id is taken", sizes)
		}
	}
	greedy := &echopb.Payload{AnswerBytes: proto.Uint32(workload.MaxBytes + 1)}
	if _, err := (&handler{}).Echo(t.Context(), greedy); err == nil {
		t.Error("the handler takes any size")
	}
}

func TestWrongAnswersAreNoticed(t *testing.T) {
	for _, wrong := range []struct {
		what  string
		spoil func(*echopb.Payload)
		says  string
	}{
		{"another id", func(p *echopb.Payload) { p.Id++ }, "the answer to id 1 has id 2"},
		{"a byte too few", func(p *echopb.Payload) { p.Data = p.Data[1:] }, "got 63 bytes, want 64"},
		{"one bit", func(p *echopb.Payload) { p.Data[63] ^= 1 }, "first at byte 63"},
		{"everything", func(p *echopb.Payload) { proto.Reset(p) }, "has id 0"},
	} {
		t.Run(wrong.what, func(t *testing.T) {
			wire, c := connect(t, job(64))
			wire.spoil = wrong.spoil
			if err := c.Call(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Check(); err == nil || !strings.Contains(err.Error(), wrong.says) {
				t.Errorf("Check says %v, want %q", err, wrong.says)
			}
		})
	}
}

func TestFailedCall(t *testing.T) {
	wire, c := connect(t, job(64))
	wire.fails = errors.New("the wire is cut")
	if err := c.Call(t.Context()); !errors.Is(err, wire.fails) {
		t.Errorf("Call says %v, want %v", err, wire.fails)
	}
}

func TestPayloadsFollowTheSeed(t *testing.T) {
	same, other, client := job(4096), job(4096), job(4096)
	other.Seed++
	client.Client++
	if !bytes.Equal(job(4096).RandomPayload(), same.RandomPayload()) {
		t.Error("equal jobs send different payloads")
	}
	if bytes.Equal(same.RandomPayload(), other.RandomPayload()) || bytes.Equal(same.RandomPayload(), client.RandomPayload()) {
		t.Error("another seed or another client sends the same payload")
	}
}

func TestCheckParameters(t *testing.T) {
	for _, p := range []workload.Parameters{
		{},
		{RequestBytes: 64, ResponseBytes: 64},
		{RequestBytes: workload.MaxBytes, ResponseBytes: workload.MaxBytes},
		{RequestBytes: 64},
		{ResponseBytes: workload.MaxBytes},
		{Settings: settings("stall=5ms", "every=7")},
	} {
		if err := (Workload{}).Check(p); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, p := range []workload.Parameters{
		{RequestBytes: 64, ResponseBytes: -1},
		{Settings: settings("stall=5")},
		{Settings: settings("every=7")},
		{Settings: settings("stall=5ms", "every=0")},
		{Settings: settings("work=5ms")},
		{RequestBytes: -1, ResponseBytes: -1},
		{RequestBytes: workload.MaxBytes + 1, ResponseBytes: workload.MaxBytes + 1},
	} {
		if (Workload{}).Check(p) == nil {
			t.Errorf("%+v is taken for an echo", p)
		}
	}
}

// TestLargestPayloadFits keeps workload.MaxBytes in step with what stacks take.
func TestLargestPayloadFits(t *testing.T) {
	largest := &echopb.Payload{Id: 1 << 63, Data: make([]byte, workload.MaxBytes), Timestamp: 1 << 62}
	if size := proto.Size(largest); size > stack.MaxMessageBytes {
		t.Errorf("the largest payload makes a message of %d bytes, stacks take %d", size, stack.MaxMessageBytes)
	}
}

// A server that answers from what it knows, before it has the whole request, is wrong in
// every answer: the end of each request's data is new, and no answer is known without it.
func TestNoAnswerIsKnownBeforeItsRequest(t *testing.T) {
	asymmetric := job(64)
	asymmetric.ResponseBytes = 1024
	for name, j := range map[string]workload.Job{"symmetric": job(64), "asymmetric": asymmetric, "small": job(8)} {
		wire, c := connect(t, j)
		var known []byte
		wire.spoil = func(answer *echopb.Payload) {
			if known == nil {
				known = bytes.Clone(answer.Data)
			}
			answer.Data = known
		}
		for n := range 20 {
			if err := c.Call(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Check(); (err == nil) != (n == 0) {
				t.Errorf("%s: answer %d is known from the first: %v", name, n+1, err)
			}
		}
		if a, b := wire.sent[0].Data, wire.sent[1].Data; bytes.Equal(a, b) || !bytes.Equal(a[:len(a)-8], b[:len(b)-8]) {
			t.Errorf("%s: the data of two requests: %x and %x, want another end and else the same", name, a, b)
		}
	}
}

// TestALongCallBeside wants the first client to keep a long call in flight, the others
// none, and a long call that fails to fail the calls that are measured.
func TestALongCallBeside(t *testing.T) {
	beside := job(64)
	beside.Settings = []scenario.Setting{{Key: longCallKey, Value: "4KiB"}}
	other := beside
	other.Client = 1
	if _, plain := (Workload{}).NewCaller(nil, other).(*caller); !plain {
		t.Error("the second client keeps a long call too")
	}
	wire := newLongWire()
	Workload{}.Register(&wire.Methods, beside.Parameters)
	client := Workload{}.NewCaller(wire, beside)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 3 { // calls end while the long one has not
		if err := client.Call(ctx); err != nil {
			t.Fatal(err)
		}
		if err := client.(interface{ Check() error }).Check(); err != nil {
			t.Error(err)
		}
	}
	if size := <-wire.long; size != 4<<10 {
		t.Errorf("the long call has %d bytes, want 4 KiB", size)
	}
	wire.answer <- nil
	<-wire.long // another follows
	wire.answer <- errors.New("gone")
	for { // the failure is noticed by a later call
		if err := client.Call(ctx); err != nil {
			if !strings.Contains(err.Error(), "the extra, unmeasured call: gone") {
				t.Error(err)
			}
			return
		}
		runtime.Gosched()
	}
}

// longWire lets the test answer the long calls.
type longWire struct {
	noWire
	long   chan int // the size of each
	answer chan error
}

func newLongWire() *longWire {
	return &longWire{long: make(chan int), answer: make(chan error)}
}

func (w *longWire) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	request := args.(*echopb.Payload)
	if len(request.Data) < 4<<10 {
		return w.noWire.Invoke(ctx, method, args, reply, opts...)
	}
	w.long <- len(request.Data)
	if err := <-w.answer; err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), request)
	return nil
}
