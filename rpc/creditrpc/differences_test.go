package creditrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A scene is a call that is played over grpc-go and over this package. What both ends see
// of it must be the same, unless `differs` says how this package's transcript differs; the
// package's page says why.
type scene struct {
	name    string
	handle  func(grpc.ServerStream, *transcript) error // a streaming method's handler
	unary   func(context.Context, *text) (*text, error)
	play    func(context.Context, grpc.ClientConnInterface, *transcript)
	differs string
}

type text = wrapperspb.StringValue

// A transcript lists the events that one end sees, one line per event.
type transcript struct{ lines []string }

func (n *transcript) note(format string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// result notes an error: its code, and the text of those that the handler made.
func (n *transcript) result(what string, err error) {
	switch st := status.Convert(err); {
	case err == nil:
		n.note("%s: ok", what)
	case errors.Is(err, io.EOF):
		n.note("%s: EOF", what)
	case strings.Contains(st.Message(), "handler"):
		n.note("%s: %v %q %d details", what, st.Code(), st.Message(), len(st.Details()))
	default:
		n.note("%s: %v", what, st.Code())
	}
}

// metadata notes those keys that begin with x-.
func (n *transcript) metadata(what string, md metadata.MD) {
	var all []string
	for key, values := range md {
		if strings.HasPrefix(key, "x-") {
			all = append(all, fmt.Sprintf("%s=%q", key, values))
		}
	}
	slices.Sort(all)
	n.note("%s: %s", what, strings.Join(all, " "))
}

// stage is a server of one scene and a client of it.
type stage struct {
	at *transcript // the handler's
}

// description is a service with a unary method and one of each kind of stream.
func (s *stage) description(sc *scene) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{
		ServiceName: "scene.Scene", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(text)
			if err := decode(in); err != nil {
				return nil, err
			}
			return sc.unary(ctx, in)
		}}},
	}
	for _, way := range []struct {
		name     string
		up, down bool
	}{{"Up", true, false}, {"Down", false, true}, {"Both", true, true}} {
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: way.name, ClientStreams: way.up, ServerStreams: way.down,
			Handler: func(_ any, stream grpc.ServerStream) error {
				return sc.handle(stream, s.at)
			},
		})
	}
	return d
}

var (
	up   = &grpc.StreamDesc{StreamName: "Up", ClientStreams: true}
	down = &grpc.StreamDesc{StreamName: "Down", ServerStreams: true}
	both = &grpc.StreamDesc{StreamName: "Both", ClientStreams: true, ServerStreams: true}
)

// limit is the longest message of every end of a scene.
const limit = 10_000

// perform plays a scene and returns both ends' transcripts.
func perform(t *testing.T, sc *scene, over string) []string {
	t.Helper()
	s := &stage{at: new(transcript)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var server interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		GracefulStop()
	}
	var client interface {
		grpc.ClientConnInterface
		io.Closer
	}
	if address := listener.Addr().String(); over == "grpc" {
		server = grpc.NewServer(grpc.MaxRecvMsgSize(limit))
		client, err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit)))
	} else {
		server = NewServer(MaxReceive(limit))
		client, err = NewClient(address, WithMaxReceive(limit))
	}
	if err != nil {
		t.Fatal(err)
	}
	server.RegisterService(s.description(sc), new(any))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := new(transcript)
	sc.play(ctx, client, seen)
	_ = client.Close()
	server.GracefulStop() // waits for handlers
	<-ended
	return slices.Concat(seen.lines, []string{"server"}, s.at.lines)
}

// TestSemanticsAreThoseOfGRPC plays every scene over both.
func TestSemanticsAreThoseOfGRPC(t *testing.T) {
	for _, sc := range scenes() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			want := strings.Join(perform(t, &sc, "grpc"), "\n")
			got := strings.Join(perform(t, &sc, "creditrpc"), "\n")
			switch {
			case sc.differs == "" && got != want:
				t.Errorf("over creditrpc:\n%s\n\nover grpc-go:\n%s", got, want)
			case sc.differs != "" && got == want:
				t.Errorf("%s: no longer; strike it out of the page", sc.differs)
			case sc.differs != "" && !strings.Contains(got, sc.differs):
				t.Errorf("over creditrpc:\n%s\nwhich lacks %q\n\nover grpc-go:\n%s", got, sc.differs, want)
			}
		})
	}
}

func scenes() []scene {
	return slices.Concat(unaryScenes(), headerScenes(), streamScenes(), endingScenes(), limitScenes())
}

// invoke makes a unary call and notes its results.
func invoke(ctx context.Context, c grpc.ClientConnInterface, seen *transcript, in string, opts ...grpc.CallOption) {
	var header, trailer metadata.MD
	reply := new(text)
	finished := 0
	opts = append(opts, grpc.Header(&header), grpc.Trailer(&trailer), grpc.OnFinish(func(error) { finished++ }))
	seen.result("call", c.Invoke(ctx, "/scene.Scene/Unary", wrapperspb.String(in), reply, opts...))
	seen.note("reply %d bytes, finished %d times", len(reply.GetValue()), finished)
	seen.metadata("header", header)
	seen.metadata("trailer", trailer)
}

// answer is a play of one unary call.
func answer(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
	invoke(ctx, c, seen, "in")
}

func failing(err error) func(context.Context, *text) (*text, error) {
	return func(context.Context, *text) (*text, error) { return nil, err }
}

func unaryScenes() []scene {
	detailed, _ := status.New(codes.DataLoss, "handler: with details").WithDetails(wrapperspb.String("detail"))
	all := []scene{
		{name: "unary/ok", play: answer, unary: func(ctx context.Context, in *text) (*text, error) {
			_ = grpc.SetHeader(ctx, metadata.Pairs("x-a", "1", "X-Upper", "2"))
			_ = grpc.SetHeader(ctx, metadata.Pairs("x-a", "3", "x-b-bin", "\x00\xff"))
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-t", "1"))
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-t", "2"))
			return in, nil
		}},
		{name: "unary/failed with metadata", play: answer, unary: func(ctx context.Context, _ *text) (*text, error) {
			_ = grpc.SetHeader(ctx, metadata.Pairs("x-a", "1"))
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-t", "1"))
			return nil, status.Error(codes.NotFound, "handler: nothing")
		}},
		{name: "unary/header twice", play: answer, unary: func(ctx context.Context, in *text) (*text, error) {
			first := grpc.SendHeader(ctx, metadata.Pairs("x-a", "1"))
			second := grpc.SendHeader(ctx, metadata.Pairs("x-a", "2"))
			later := grpc.SetHeader(ctx, metadata.Pairs("x-a", "3"))
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-t", fmt.Sprint(status.Code(first), status.Code(second), status.Code(later))))
			return in, nil
		}},
		{name: "unary/nothing answered", play: answer, unary: func(context.Context, *text) (*text, error) { return nil, nil }},
		{name: "unary/an answer and an error", play: answer, unary: func(context.Context, *text) (*text, error) {
			return wrapperspb.String("both"), status.Error(codes.Aborted, "handler: both")
		}},
		{name: "unary/what the handler sees", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			invoke(metadata.AppendToOutgoingContext(ctx, "x-a", "1", "X-A", "2", "x-b-bin", "\x00\xff"), c, seen, "in")
		}, unary: func(ctx context.Context, in *text) (*text, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			p, ok := peer.FromContext(ctx)
			method, _ := grpc.Method(ctx)
			_, deadline := ctx.Deadline()
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-seen", fmt.Sprintf("%q %q %v %s %v", md["x-a"], md["x-b-bin"], ok && p.Addr != nil && p.LocalAddr != nil, method, deadline)))
			return in, nil
		}},
		{name: "unary/no deadline", play: func(_ context.Context, c grpc.ClientConnInterface, seen *transcript) {
			answer(context.Background(), c, seen)
		}, unary: func(ctx context.Context, in *text) (*text, error) {
			_, deadline := ctx.Deadline()
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-deadline", fmt.Sprint(deadline)))
			return in, nil
		}},
		{name: "unary/deadline", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			answer(ctx, c, seen)
		}, unary: func(ctx context.Context, _ *text) (*text, error) { <-ctx.Done(); return nil, ctx.Err() }},
		{name: "unary/past deadline", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
			defer cancel()
			answer(ctx, c, seen)
		}},
		{name: "unary/cancelled before", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			answer(ctx, c, seen)
		}},
		{name: "unary/unknown method", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			for _, method := range []string{"/scene.Scene/None", "/no.Service/Unary", "/scene.Scene/Both"} {
				seen.result(method, c.Invoke(ctx, method, wrapperspb.String(""), new(text)))
			}
		}, handle: func(grpc.ServerStream, *transcript) error { return nil }},
		{name: "unary/malformed method", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			for _, method := range []string{"Unary", "", "/"} {
				seen.result("method "+method, c.Invoke(ctx, method, wrapperspb.String(""), new(text)))
			}
		}},
		{name: "unary/no message to encode", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			seen.result("not a message", c.Invoke(ctx, "/scene.Scene/Unary", 7, new(text)))
			seen.result("no reply", c.Invoke(ctx, "/scene.Scene/Unary", wrapperspb.String(""), 7))
		}, unary: func(_ context.Context, in *text) (*text, error) { return in, nil }},
	}
	for name, err := range map[string]error{
		"plain":      errors.New("handler: plain"),
		"EOF":        io.EOF,
		"cancelled":  context.Canceled,
		"deadline":   context.DeadlineExceeded,
		"wrapped":    fmt.Errorf("handler: wraps: %w", status.Error(codes.NotFound, "handler: inner")),
		"details":    detailed.Err(),
		"large code": status.Error(codes.Code(77), "handler: code 77"),
		"odd text":   status.Error(codes.Internal, "handler: 100 % of\nlines\tand «quotes»\x00"),
		"no text":    status.Error(codes.Unavailable, ""),
		"bad UTF-8":  status.Error(codes.Internal, "handler: \xff\xfe"),
	} {
		all = append(all, scene{name: "unary/error/" + name, play: answer, unary: failing(err)})
	}
	return all
}
