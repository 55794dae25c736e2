package creditrpc

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// checkKept takes the messages of a call, and checks that none keeps memory that is much longer.
func checkKept(t *testing.T, inbox *rpccall.Queue[link.Message]) {
	t.Helper()
	for m, ok := inbox.Take(); ok; m, ok = inbox.Take() {
		if m.Buffer != nil && cap(m.Buffer.Data) > 2*len(m.Data) {
			t.Errorf("a message of %d bytes keeps %d", len(m.Data), cap(m.Buffer.Data))
		}
		m.Release()
	}
}

// TestUnendedRequestsKeepNoChunks has a client send requests of unary calls that it does not end. None
// may keep the chunk into which the server has read it.
func TestUnendedRequestsKeepNoChunks(t *testing.T) {
	const calls = 20
	server := NewServer()
	a := attack(t, serve(t, server, new(service)))
	a.names(unaryCall)
	message, err := proto.Marshal(request(make([]byte, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint32(calls) {
		payload := append(frame.RequestStart{}.Append(nil), message...)
		a.out = frame.Head{Type: frame.Request, Stream: id + 1}.AppendFrame(a.out, payload)
	}
	if err := a.flush(time.Minute); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the connection is open", func() bool { return openConns(server) == 1 })
	c := server.conns.All()[0]
	waitFor(t, "all calls have begun", func() bool {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		return len(c.calls) == calls
	})
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for call := range c.calls {
		if call.inbox.Len() != 1 {
			t.Errorf("a call has %d messages, want 1", call.inbox.Len())
		}
		checkKept(t, &call.inbox)
	}
}

// TestUnendedAnswersAreFew has a server send one message after another to a unary call, and not end it.
// The client keeps two of them, and not the chunk into which it has read them.
func TestUnendedAnswersAreFew(t *testing.T) {
	const messages, length = 200, 1000
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	client := dial(t, lis.Addr().String())
	ended := make(chan error, 1)
	go func() {
		_, err := testgrpc.NewTestServiceClient(client).UnaryCall(t.Context(), request(nil))
		ended <- err
	}()
	nc, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	out := frame.AppendHello(nil, frame.Settings{Version: frame.Version, Window: 1 << 20, PerStream: 1 << 18, Calls: 100, MaxMessage: 1 << 20, MaxMeta: 1 << 14})
	sent := len(out)
	if _, err := nc.Write(out); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(nc)
	for {
		start, err := in.Peek(frame.HeaderLen)
		if err != nil {
			t.Fatal(err)
		}
		head, err := frame.ReadHead(start)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Discard(frame.HeaderLen + head.Length); err != nil {
			t.Fatal(err)
		}
		if head.Type == frame.Request {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, in) }() // ends with the connection
	out = nil
	for range messages {
		out = frame.Head{Type: frame.Data, Stream: 1}.AppendFrame(out, make([]byte, length))
	}
	sent += len(out)
	if _, err := nc.Write(out); err != nil {
		t.Fatal(err)
	}
	client.conns.Mu.Lock()
	cc := client.current
	client.conns.Mu.Unlock()
	waitFor(t, "all messages have come", func() bool {
		cc.Mu.Lock()
		defer cc.Mu.Unlock()
		return cc.Counters.BytesIn == uint64(sent)
	})
	cc.Mu.Lock()
	call := cc.link.All()[0].Owner.(*clientCall)
	kept := call.inbox.Len()
	checkKept(t, &call.inbox)
	call.inbox.Put(link.Message{}) // for those that were taken
	call.inbox.Put(link.Message{})
	cc.Mu.Unlock()
	if kept != 2 {
		t.Errorf("the client keeps %d messages, want 2", kept)
	}
	if _, err := nc.Write(frame.Head{Type: frame.Status, Stream: 1}.AppendFrame(nil, []byte{0, 0, 0})); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; status.Code(err) != codes.Internal {
		t.Errorf("%v, want Internal", err)
	}
}
