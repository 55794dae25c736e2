package grpcstack

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// TestCausesOutliveGRPCGo takes the server away from a client that keeps its
// connection: its attempts to connect again fail with a text that quotes the
// kernel, and with the kernel's error behind it.
func TestCausesOutliveGRPCGo(t *testing.T) {
	for _, variant := range []string{"grpc", "grpc:tls=on"} {
		server, err := Stack.NewServer(parse(t, variant))
		if err != nil {
			t.Fatal(err)
		}
		echopb.RegisterEchoServiceServer(server, &whoAsks{calls: map[string]int{}})
		address, err := server.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve() }() // ends with Close
		target := stack.Target{Address: address.String()}
		target.Trust.SkipVerify = true
		stub := echopb.NewEchoServiceClient(dialTest(t, variant, target))
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for failure.Of(err) != failure.Refused && ctx.Err() == nil { // the first may meet the connection's end
			_, err = stub.Echo(ctx, &echopb.Payload{})
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: calls to a server that is gone end with %v", variant, err)
		}
	}
}

// TestRefusedTwice has a peer that refuses a call, and then the attempt that
// grpc-go makes in its place, before grpc-go has written its request.
func TestRefusedTwice(t *testing.T) {
	const method = "/test.Service/Method"
	for name, call := range map[string]func(stack.Client) error{
		"unary": func(c stack.Client) error {
			return c.Invoke(t.Context(), method, &echopb.Payload{}, &echopb.Payload{})
		},
		"server stream": func(c stack.Client) error {
			return stream(c, &grpc.StreamDesc{ServerStreams: true}, method)
		},
		"client stream": func(c stack.Client) error {
			return stream(c, &grpc.StreamDesc{ClientStreams: true}, method)
		},
		"both streams": func(c stack.Client) error {
			return stream(c, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := call(clientOfRefuser(t)); failure.Of(err) != failure.StreamRefused {
				t.Errorf("it ended with %v, of class %q", err, failure.Of(err))
			}
		})
	}
}

// stream sends one message and returns the error of receiving.
func stream(c stack.Client, desc *grpc.StreamDesc, method string) error {
	s, err := c.NewStream(context.Background(), desc, method)
	if err != nil {
		return err
	}
	if err := s.SendMsg(&echopb.Payload{}); err != nil && !errors.Is(err, io.EOF) { // receiving tells why
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return s.RecvMsg(&echopb.Payload{})
}

func clientOfRefuser(t *testing.T) stack.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	again := &secondHeader{refused: make(chan struct{})}
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go refuseCalls(conn, again.refused) // ends with the connection
		}
	}()
	var dialer net.Dialer
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}
	client, err := connect(t.Context(), listener.Addr().String(), dial,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(again))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// refuseCalls refuses the first call once all of it has come, and the others
// at their headers. refused is closed when the client has read the second refusal.
func refuseCalls(conn net.Conn, refused chan struct{}) {
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings()
	for calls := 0; ; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			if calls++; calls == 2 {
				_ = framer.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
				_ = framer.WritePing(false, [8]byte{'r'}) // answered after the refusal is read
			}
		case *http2.DataFrame:
			if calls == 1 && frame.StreamEnded() {
				_ = framer.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
			}
		case *http2.PingFrame:
			if frame.IsAck() && frame.Data == [8]byte{'r'} {
				close(refused)
			}
		}
	}
}

// secondHeader holds the second attempt between its headers and its request,
// until its refusal has been read.
type secondHeader struct {
	attempts atomic.Int32
	refused  chan struct{}
}

var _ stats.Handler = (*secondHeader)(nil)

func (s *secondHeader) HandleRPC(_ context.Context, what stats.RPCStats) {
	if _, is := what.(*stats.OutHeader); is && s.attempts.Add(1) == 2 {
		<-s.refused
	}
}

func (*secondHeader) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (*secondHeader) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*secondHeader) HandleConn(context.Context, stats.ConnStats)                       {}
