package creditrpc

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/creditrpc/internal/link"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// floods lists frames that make no progress. An end gets each after the first call is over.
var floods = []struct {
	name string
	head frame.Head
	data string
}{
	{"pings", frame.Head{Type: frame.Ping}, "12345678"},
	{"answers", frame.Head{Type: frame.Ping, Flags: frame.Answer}, "12345678"},
	{"grants", frame.Head{Type: frame.Credit}, "\x01\x00"},
	{"grants of a dead call", frame.Head{Type: frame.Credit, Stream: 1}, "\x01\x00"},
	{"cancels of a dead call", frame.Head{Type: frame.Cancel, Stream: 1}, ""},
	{"data of a dead call", frame.Head{Type: frame.Data, Flags: frame.Nothing, Stream: 1}, ""},
}

// floodBytes is more of a flood than the allowance of several minutes, so that the flood ends
// however slow the machine is.
const floodBytes = 8 << 20

// Servers close the connections of clients that flood them, and serve others meanwhile.
func TestFloodsEndTheConnection(t *testing.T) {
	server := NewServer()
	address := serve(t, server, new(service))
	bystander := testgrpc.NewTestServiceClient(dial(t, address))
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			a := attack(t, address)
			a.names("/unknown")
			a.out = append(frame.Head{Length: 3, Type: frame.Request, Flags: frame.Nothing, Stream: 1}.Append(a.out), 0, 0, 0)
			if err := a.flush(time.Minute); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, a) }() // ends with the connection
			for len(a.out) < floodBytes {
				a.out = f.head.AppendFrame(a.out, []byte(f.data))
			}
			if err := a.flush(time.Minute); err == nil || isTimeout(err) {
				t.Errorf("%d bytes: %v, want a connection that is closed", floodBytes, err)
			}
			if _, err := bystander.UnaryCall(t.Context(), request(nil)); err != nil {
				t.Errorf("a call beside it: %v", err)
			}
			waitFor(t, "only the other connection is left", func() bool { return openConns(server) == 1 })
		})
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// Clients close the connections of servers that flood them. Their calls end with the reason.
func TestFloodsEndTheConnectionOfAClient(t *testing.T) {
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var server sync.WaitGroup
			server.Go(func() {
				nc, err := lis.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = nc.Close() }()
				out := frame.AppendHello(nil, frame.Settings{Version: frame.Version, Window: 1 << 20, PerStream: 1 << 18, Calls: 100, MaxMessage: 1 << 20, MaxMeta: 1 << 14})
				_, _ = nc.Write(out)
				_, _ = io.ReadFull(nc, make([]byte, 450)) // the client's Hello, and both Requests
				out = frame.Head{Type: frame.Status, Stream: 1}.AppendFrame(nil, []byte{0, 0, 0})
				for len(out) < floodBytes {
					out = f.head.AppendFrame(out, []byte(f.data))
				}
				go func() { _, _ = io.Copy(io.Discard, nc) }() // ends with the connection
				_ = nc.SetWriteDeadline(time.Now().Add(time.Minute))
				if _, err := nc.Write(out); err == nil || isTimeout(err) {
					t.Errorf("%d bytes: %v, want a connection that is closed", floodBytes, err)
				}
			})
			c := testgrpc.NewTestServiceClient(dial(t, lis.Addr().String()))
			reasons := make(chan bool, 2)
			for range 2 { // the server ends one of them before its flood
				go func() {
					_, err := c.UnaryCall(t.Context(), request(make([]byte, 200)))
					reasons <- status.Code(err) == codes.Unavailable && errors.Is(err, link.ErrProtocol) && strings.Contains(err.Error(), "too many frames that make no progress")
				}()
			}
			if first, second := <-reasons, <-reasons; !first && !second {
				t.Error("no call says why the connection ended")
			}
			server.Wait()
			_ = lis.Close()
		})
	}
}

// The busiest users that break no rule, over one connection with the least windows. No time passes
// while an end works, so time allows them nothing.

// Each of many calls is given up at a deadline, before, while and after its handler answers.
func TestStormOfDeadlinesIsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, each = 30, 500
		w := newWire(t)
		var all sync.WaitGroup
		for i := range callers {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				for range each {
					in := request(make([]byte, random.IntN(200)))
					if random.IntN(2) == 0 {
						in.ResponseStatus = &testgrpc.EchoStatus{Message: "wait"}
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(200))*time.Microsecond)
					_, err := w.stub.UnaryCall(ctx, in)
					cancel()
					if c := status.Code(err); c != codes.OK && c != codes.DeadlineExceeded {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		w.stillServes(t)
	})
}

// A stream is idle for a year, and pinged each hour.
func TestIdleStreamIsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		both, err := w.stub.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = both.Send(&testgrpc.StreamingOutputCallRequest{})
		if _, err := both.Recv(); err != nil {
			t.Fatal(err)
		}
		for range 2 * 365 * 24 {
			w.take() // the bytes of the pings
			time.Sleep(w.silence / 2)
		}
		if err := both.Send(&testgrpc.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := both.Recv(); err != nil {
			t.Errorf("after a year: %v", err)
		}
		_ = both.CloseSend()
		w.stillServes(t)
	})
}

// A slow reader takes messages of a byte, and of none, one by one.
func TestSlowReaderOfShortMessagesIsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 20_000
		w := newWire(t)
		in := new(testgrpc.StreamingOutputCallRequest)
		for i := range messages {
			in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: int32(i % 2)})
		}
		down, err := w.stub.StreamingOutputCall(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range messages {
			if i%100 == 0 {
				time.Sleep(time.Microsecond) // until the server has sent all that it may
			}
			if _, err := down.Recv(); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if _, err := down.Recv(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		w.stillServes(t)
	})
}

// stillServes checks that the only connection that there can be is open.
func (w *wire) stillServes(t *testing.T) {
	t.Helper()
	if _, err := w.stub.UnaryCall(t.Context(), request(nil)); err != nil {
		t.Errorf("the last call: %v", err)
	}
}
