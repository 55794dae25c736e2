package held

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/internal/wire/service"
)

// A grpcSite counts the streams and messages of a gRPC server, and says how many answers a stream has.
type grpcSite struct {
	streams, received, sent, closed atomic.Int64
	answers                         int64 // then the stream ends with the status; 0: no end
	end                             error
}

func (s *grpcSite) handle(_ any, stream grpc.ServerStream) error {
	s.streams.Add(1)
	method, _ := grpc.MethodFromServerStream(stream)
	for n := int64(1); ; n++ {
		var message wrapperspb.StringValue
		err := stream.RecvMsg(&message)
		if errors.Is(err, io.EOF) {
			s.closed.Add(1)
			if method == "/test.S/Collect" {
				return stream.SendMsg(wrapperspb.String("all"))
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.received.Add(1)
		if method == "/test.S/Collect" {
			continue
		}
		for method == "/test.S/Feed" || method == "/test.S/Echo" {
			s.sent.Add(1)
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
			if s.answers > 0 && n >= s.answers {
				return s.end
			}
			if method == "/test.S/Echo" {
				break
			}
			n++
		}
	}
}

// serveGRPC serves the site, and returns the definition of a client that holds streams to one of its methods.
func (s *grpcSite) serveGRPC(t *testing.T, method string, kind service.Stream, h service.Holding) *service.Definition {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(s.handle))
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	message, err := proto.Marshal(wrapperspb.String("hello"))
	if err != nil {
		t.Fatal(err)
	}
	h.InFlight = max(h.InFlight, 1)
	address := listener.Addr().String()
	d := &service.Definition{
		Wire: service.GRPC, Network: "tcp", Address: address, Authority: address, Timeout: time.Minute, Holding: &h,
		Requests: []service.Request{{Method: "POST", Path: "/test.S/" + method, Stream: kind, Messages: [][]byte{message}}},
	}
	d.Holding.SetDefault(d)
	return d
}

// Each kind of gRPC stream is held, and both sides count the same messages.
func TestGRPCStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method   string
		kind     service.Stream
		exchange service.Exchange
	}{
		{"Echo", service.Stream{Client: true, Server: true}, service.Answers},
		{"Collect", service.Stream{Client: true}, service.Send},
		{"Feed", service.Stream{Server: true}, service.Receive},
		{"Echo", service.Stream{Client: true, Server: true}, service.Send},
	} {
		t.Run(c.method+" "+string(c.exchange), func(t *testing.T) {
			t.Parallel()
			var s grpcSite
			h := service.Holding{}
			if c.method == "Echo" {
				h.Exchange = c.exchange
			}
			client := open(t, s.serveGRPC(t, c.method, c.kind, h), 2)
			if got := client.Holding.Exchange; got != c.exchange {
				t.Fatalf("the exchange is %q", got)
			}
			answers := hold(t, client, 8)
			failed := callEach(t, client, answers, 50, func(_, _ int, a *service.Answer) error {
				if c.exchange != service.Send && a.Bytes != 7 || a.Status != int(codes.OK) {
					return fmt.Errorf("%d bytes, status %d", a.Bytes, a.Status)
				}
				return nil
			})
			if len(failed) > 0 {
				t.Fatalf("%d calls failed: %v", len(failed), failed[0])
			}
			all := client.Streams()
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			switch c.exchange {
			case service.Receive:
				if all.Received < 400 || all.Sent != 0 || s.received.Load() != 8 {
					t.Errorf("%+v; the server received %d", all, s.received.Load())
				}
			default: // the streams end in the way of gRPC, so nothing is lost
				if all.Sent != 400 || s.received.Load() != 400 || s.closed.Load() != 8 || s.streams.Load() != 8 {
					t.Errorf("%+v; the server received %d on %d streams, %d of them closed", all, s.received.Load(), s.streams.Load(), s.closed.Load())
				}
			}
		})
	}
}

// A stream that ends with OK is opened again without a failed call of a feed, and one that ends with an
// error fails a call; both are counted with their status.
func TestGRPCStreamsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    error
		reason string
		fails  bool
	}{
		"OK":          {nil, "status OK", false},
		"unavailable": {status.Error(codes.ResourceExhausted, "enough"), "status ResourceExhausted", true},
	} {
		s := grpcSite{answers: 100, end: c.end}
		client := open(t, s.serveGRPC(t, "Feed", service.Stream{Server: true}, service.Holding{}), 1)
		answers := hold(t, client, 1)
		failed := callEach(t, client, answers, 1000, nil)
		all := client.Streams()
		if c.fails != (len(failed) > 0) || c.fails && !strings.Contains(failed[0].Error(), "status ResourceExhausted: enough") {
			t.Errorf("%s: failed %v", name, failed)
		}
		if c.fails && len(failed) < 8 || all.Reopened < 8 || len(all.Ends) != 1 || all.Ends[0].Code != c.reason {
			t.Errorf("%s: %+v; the server had %d streams", name, all, s.streams.Load())
		}
	}
}

// A server that allows fewer streams than are to be held is named as the reason.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	var s grpcSite
	d := s.serveGRPC(t, "Echo", service.Stream{Client: true, Server: true}, service.Holding{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(s.handle), grpc.MaxConcurrentStreams(2))
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	d.Address, d.Timeout = listener.Addr().String(), 2*time.Second
	client := open(t, d, 1)
	hold(t, client, 2)
	err = client.Hold(t.Context(), 2, &d.Requests[0], &service.Answer{})
	if err == nil || !strings.Contains(err.Error(), "not open within 2s: the server may allow fewer streams per connection: spread them with --conn pool:N") {
		t.Errorf("found %v", err)
	}
}
