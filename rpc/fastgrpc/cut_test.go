package fastgrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/call/wire"
)

// The tests of this file record the bytes of a call, play them to both libraries, cut the
// connection after every one of them, and compare what the program sees.

// cutCall is a kind of call to record.
type cutCall struct {
	name       string
	desc       grpc.StreamDesc // unary if it streams in neither direction
	md         metadata.MD     // sent in both directions
	compressor string
	refuse     bool // answer with a status only
}

func cutCalls() []cutCall {
	var calls []cutCall
	for _, kind := range []struct {
		name string
		desc grpc.StreamDesc
	}{
		{"unary", grpc.StreamDesc{}},
		{"client stream", grpc.StreamDesc{ClientStreams: true}},
		{"server stream", grpc.StreamDesc{ServerStreams: true}},
		{"both stream", grpc.StreamDesc{ClientStreams: true, ServerStreams: true}},
	} {
		md := metadata.Pairs("cut", "yes", "cut-bin", "\x00\xff")
		calls = append(calls,
			cutCall{name: kind.name, desc: kind.desc},
			cutCall{name: kind.name + " with metadata and gzip", desc: kind.desc, md: md, compressor: gzip.Name},
			cutCall{name: kind.name + " refused", desc: kind.desc, refuse: true},
		)
	}
	return calls
}

func (c *cutCall) method() string {
	switch {
	case c.desc.ClientStreams && c.desc.ServerStreams:
		return "Both"
	case c.desc.ClientStreams:
		return "In"
	case c.desc.ServerStreams:
		return "Out"
	}
	return "Unary"
}

// cutMessages is the number of messages in a direction that streams.
const cutMessages = 2

func cutMessage() *testgrpc.Payload { return &testgrpc.Payload{Body: bytes.Repeat([]byte{7}, 30)} }

// An outcome holds what a program learns about a call.
type outcome struct {
	messages int
	code     codes.Code
	eof      bool   // the error is io.EOF
	more     string // a client's OnFinish, or the error of a handler's context
}

// do makes the call and says how it went.
func (c *cutCall) do(client grpcClient) (o outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.Join(c.md, metadata.Pairs("refuse", fmt.Sprint(c.refuse))))
	opts := []grpc.CallOption{grpc.OnFinish(func(err error) { o.more = status.Code(err).String() })}
	if c.compressor != "" {
		opts = append(opts, grpc.UseCompressor(c.compressor))
	}
	err := c.exchange(ctx, client, &o.messages, opts)
	o.eof = errors.Is(err, io.EOF)
	if o.eof {
		err = nil
	}
	o.code = status.Code(err)
	return o
}

func (c *cutCall) exchange(ctx context.Context, client grpcClient, received *int, opts []grpc.CallOption) error {
	method, reply := "/cut.Cut/"+c.method(), new(testgrpc.Payload)
	if !c.desc.ClientStreams && !c.desc.ServerStreams {
		err := client.Invoke(ctx, method, cutMessage(), reply, opts...)
		if err == nil {
			*received++
		}
		return err
	}
	stream, err := client.NewStream(ctx, &c.desc, method, opts...)
	if err != nil {
		return err
	}
	sends := 1
	if c.desc.ClientStreams {
		sends = cutMessages
	}
	for range sends {
		_ = stream.SendMsg(cutMessage()) // RecvMsg tells why it fails
	}
	_ = stream.CloseSend()
	for {
		if err := stream.RecvMsg(reply); err != nil {
			return err
		}
		*received++
		if !c.desc.ServerStreams {
			return nil
		}
	}
}

// cutService answers recorded calls. If watch is set, a handler instead reports what it
// receives, and how its context ended.
type cutService struct {
	watch *handlerWatch
}

func (s *cutService) register(to grpc.ServiceRegistrar) {
	desc := grpc.ServiceDesc{ServiceName: "cut.Cut", HandlerType: (*any)(nil)}
	desc.Methods = []grpc.MethodDesc{{MethodName: "Unary", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		if err := decode(new(testgrpc.Payload)); err != nil {
			return nil, err
		}
		if s.watch != nil {
			s.watch.received(nil)
			s.watch.ended(ctx)
			return cutMessage(), nil
		}
		md, _ := metadata.FromIncomingContext(ctx)
		if md.Get("refuse")[0] == "true" {
			return nil, status.Error(codes.DataLoss, "no %")
		}
		_ = grpc.SetHeader(ctx, metadata.Pairs("cut", "h"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("cut", "t"))
		return cutMessage(), nil
	}}}
	for _, call := range cutCalls()[3:] {
		if call.refuse || call.md != nil {
			continue
		}
		desc.Streams = append(desc.Streams, grpc.StreamDesc{
			StreamName: call.method(), ClientStreams: call.desc.ClientStreams, ServerStreams: call.desc.ServerStreams,
			Handler: func(_ any, stream grpc.ServerStream) error { return s.serve(stream, call.desc) },
		})
	}
	to.RegisterService(&desc, s)
}

func (s *cutService) serve(stream grpc.ServerStream, desc grpc.StreamDesc) error {
	if s.watch != nil {
		s.watch.began()
		for {
			err := stream.RecvMsg(new(testgrpc.Payload))
			s.watch.received(err)
			if err != nil {
				s.watch.ended(stream.Context())
				return err
			}
		}
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	if md.Get("refuse")[0] == "true" {
		return status.Error(codes.DataLoss, "no %")
	}
	_ = stream.SetHeader(metadata.Pairs("cut", "h"))
	stream.SetTrailer(metadata.Pairs("cut", "t"))
	for {
		err := stream.RecvMsg(new(testgrpc.Payload))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	sends := 1
	if desc.ServerStreams {
		sends = cutMessages
	}
	for range sends {
		if err := stream.SendMsg(cutMessage()); err != nil {
			return err
		}
	}
	return nil
}

// record makes a call between two ends and returns the bytes of both.
func (c *cutCall) record(t *testing.T, p pair) (request, response []byte) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := p.server()
	new(cutService).register(server)
	go func() { _ = server.Serve(lis) }()
	defer server.Stop()
	kept := new(tee)
	client := c.dial(t, p, func(ctx context.Context) (net.Conn, error) {
		kept.Conn, err = new(net.Dialer).DialContext(ctx, "tcp", lis.Addr().String())
		return kept, err
	})
	if o := c.do(client); o.code != codes.OK && !c.refuse {
		t.Fatalf("recording: %+v", o)
	}
	_ = client.Close()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	return kept.out, kept.in
}

func (c *cutCall) dial(t *testing.T, p pair, dial func(context.Context) (net.Conn, error)) (client grpcClient) {
	t.Helper()
	var err error
	if p.client == nil {
		client, err = grpc.NewClient("passthrough:///cut", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	} else {
		client, err = p.client("passthrough:///cut", WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	}
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// cutPair returns one library on both ends.
func cutPair(fast bool) pair {
	if fast {
		return pair{server: fastServer, client: fastClient}
	}
	return pair{server: theirServer}
}

// wireFrame is a frame in recorded bytes.
type wireFrame struct {
	http2.FrameHeader
	end     int // the offset after it
	content []byte
}

// framesOf returns the whole frames in the bytes that one end wrote.
func framesOf(recorded []byte, fromClient bool) (frames []wireFrame) {
	at := 0
	if fromClient {
		at = len(http2.ClientPreface)
	}
	for at+9 <= len(recorded) {
		header, err := http2.ReadFrameHeader(bytes.NewReader(recorded[at:]))
		if err != nil || at+9+int(header.Length) > len(recorded) {
			break
		}
		next := at + 9 + int(header.Length)
		frames = append(frames, wireFrame{header, next, recorded[at+9 : next]})
		at = next
	}
	return frames
}

func (f *wireFrame) endsStream() bool {
	return f.StreamID != 0 && (f.Type == http2.FrameData || f.Type == http2.FrameHeaders) && f.Flags.Has(http2.FlagDataEndStream)
}

// ends of a connection that a reader may meet.
var cutErrors = []error{io.EOF, io.ErrUnexpectedEOF, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}

// step returns the number of bytes between two cuts. It is larger in short runs, which use
// the race detector: there a cut takes ten times as long.
func step() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// TestClientCuts cuts a response after every byte and compares the outcome for the client's
// program with grpc-go's.
func TestClientCuts(t *testing.T) {
	for _, call := range cutCalls() {
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			_, response := call.record(t, cutPair(call.md != nil))
			frames := framesOf(response, false)
			settings, gate := frames[0].end, 0
			for _, f := range frames {
				if f.StreamID != 0 {
					break
				}
				gate = f.end
			}
			if gate == len(response) {
				t.Fatal("nothing recorded")
			}
			for cut := 0; cut <= len(response); cut += step() {
				call.compareClients(t, clientScript{
					bytes: response[:cut], gate: gate, settings: settings, end: cutErrors[cut%len(cutErrors)], text: fmt.Sprintf("cut after %d of %d bytes", cut, len(response)),
				})
			}
			// The same with a reset instead of a cut between two frames.
			over := false
			for i, f := range frames {
				over = over || f.endsStream()
				if f.end < gate || i == len(frames)-1 {
					continue
				}
				for code := http2.ErrCodeNo; code <= http2.ErrCodeHTTP11Required+1; code++ {
					if over && code == http2.ErrCodeRefusedStream {
						// If grpc-go reads this before its caller has the status, it makes the call
						// again, which fails since the connection has ended. fastgrpc keeps the status.
						continue
					}
					var reset bytes.Buffer
					reset.Write(response[:f.end])
					_ = http2.NewFramer(&reset, nil).WriteRSTStream(1, code)
					call.compareClients(t, clientScript{
						bytes: reset.Bytes(), gate: gate, settings: settings, end: io.EOF, text: fmt.Sprintf("reset with %v after %d of %d bytes", code, f.end, len(response)),
					})
				}
			}
		})
	}
}

// A clientScript holds the bytes that a client reads, and the end of its connection.
type clientScript struct {
	bytes    []byte
	settings int   // where the first frame ends; before it the client cannot connect
	gate     int   // where the response begins, which must wait for the request
	end      error // how the connection ends
	text     string
}

func (c *cutCall) compareClients(t *testing.T, script clientScript) {
	t.Helper()
	ours, theirs := c.play(t, cutPair(true), script), c.play(t, cutPair(false), script)
	if ours != theirs {
		t.Errorf("%s: fastgrpc %+v, grpc-go %+v", script.text, ours, theirs)
	}
}

func (c *cutCall) play(t *testing.T, p pair, script clientScript) outcome {
	conn := newScript(script.bytes, script.end, func(conn *scriptConn) {
		conn.free = max(conn.free, script.gate)
		if len(script.bytes) < script.settings {
			conn.mayEnd = true
			return
		}
		for _, f := range framesOf(conn.written, true) {
			if f.endsStream() {
				conn.free, conn.mayEnd = len(conn.bytes), true
			}
		}
	})
	var once sync.Once
	client := c.dial(t, p, func(context.Context) (nc net.Conn, err error) {
		err = syscall.ECONNREFUSED
		once.Do(func() { nc, err = conn, nil })
		return nc, err
	})
	defer func() { _ = client.Close() }()
	return c.do(client)
}

// handlerWatch records the messages and errors that a handler receives.
type handlerWatch struct {
	events  chan struct{}
	outcome outcome
	done    chan struct{}
}

func newHandlerWatch() *handlerWatch {
	return &handlerWatch{events: make(chan struct{}, cutMessages+3), done: make(chan struct{})}
}

func (w *handlerWatch) began() { w.events <- struct{}{} }

func (w *handlerWatch) received(err error) {
	switch {
	case err == nil:
		w.outcome.messages++
	case errors.Is(err, io.EOF):
		w.outcome.eof = true
	default:
		w.outcome.code = status.Code(err)
	}
	w.events <- struct{}{}
}

func (w *handlerWatch) ended(ctx context.Context) {
	<-ctx.Done()
	w.outcome.more = ctx.Err().Error()
	close(w.done)
}

// TestServerCuts cuts a request after every byte and compares the outcome for the handler
// with grpc-go's.
func TestServerCuts(t *testing.T) {
	for _, call := range cutCalls() {
		if call.refuse {
			continue // the request is the same
		}
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			request, _ := call.record(t, cutPair(call.md != nil))
			for cut := 0; cut <= len(request); cut += step() {
				ours, theirs := call.serve(t, true, request[:cut], cutErrors[cut%len(cutErrors)]), call.serve(t, false, request[:cut], cutErrors[cut%len(cutErrors)])
				if ours != theirs {
					t.Errorf("cut after %d of %d bytes: fastgrpc's handler %+v, grpc-go's %+v", cut, len(request), ours, theirs)
				}
			}
		})
	}
}

// serve plays a request to a server and returns the handler's outcome. The connection ends
// when the handler has read all data before the end: grpc-go drops unread data.
func (c *cutCall) serve(t *testing.T, fast bool, request []byte, end error) outcome {
	watch, expect := newHandlerWatch(), c.expect(request)
	conn := newScript(request, end, nil)
	conn.free = len(request)
	conn.mayEnd = expect == 0
	lis := &oneConnListener{conn: conn, closed: make(chan struct{})}
	server := cutPair(fast).server()
	(&cutService{watch}).register(server)
	served := make(chan struct{})
	go func() {
		_ = server.Serve(lis)
		close(served)
	}()
	for range expect {
		<-watch.events
	}
	conn.cut()
	if expect > 0 {
		<-watch.done
	}
	conn.waitClosed()
	server.Stop()
	<-served
	return watch.outcome
}

// expect returns how many events the handler reports for a request: its begin, each
// message and the end. A single message is received together with the end.
func (c *cutCall) expect(request []byte) (events int) {
	var content []byte
	ended := false
	for _, f := range framesOf(request, true) {
		if f.StreamID == 1 && f.Type == http2.FrameData {
			content = append(content, f.content...)
		}
		if f.Type == http2.FrameHeaders && c.method() != "Unary" {
			events++
		}
		ended = ended || f.endsStream()
	}
	for c.desc.ClientStreams && len(content) >= wire.PrefixLen {
		length := wire.PrefixLen + int(content[4]) // they are short
		if len(content) < length {
			break
		}
		content = content[length:]
		events++
	}
	if ended {
		events++
		if c.method() == "Out" {
			events++ // the end, after the message
		}
	}
	return events
}
