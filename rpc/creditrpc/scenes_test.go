package creditrpc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// open opens a stream, and notes where that fails.
func open(ctx context.Context, c grpc.ClientConnInterface, desc *grpc.StreamDesc, seen *transcript, opts ...grpc.CallOption) grpc.ClientStream {
	stream, err := c.NewStream(ctx, desc, "/scene.Scene/"+desc.StreamName, opts...)
	if err != nil {
		seen.result("open", err)
		return nil
	}
	return stream
}

// drain receives to the end, and notes each message, the end twice, and the metadata.
func drain(stream grpc.ClientStream, seen *transcript) {
	for {
		in := new(text)
		err := stream.RecvMsg(in)
		if err != nil {
			seen.result("receive", err)
			seen.result("receive again", stream.RecvMsg(in))
			seen.metadata("trailer", stream.Trailer())
			return
		}
		seen.note("received %q", in.GetValue())
	}
}

func headerOf(stream grpc.ClientStream, seen *transcript) {
	md, err := stream.Header()
	seen.result("header", err)
	seen.metadata("header", md)
}

func send(stream interface{ SendMsg(any) error }, message string) error {
	return stream.SendMsg(wrapperspb.String(message))
}

// listen opens a stream, ends sending, and notes the header and the messages.
func listen(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
	stream := open(ctx, c, both, seen)
	seen.result("close", stream.CloseSend())
	headerOf(stream, seen)
	drain(stream, seen)
	headerOf(stream, seen)
}

func headerScenes() []scene {
	pairs := metadata.Pairs
	return []scene{
		{name: "header/sent alone", play: listen, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("send", s.SendHeader(pairs("x-a", "1")))
			at.result("set", s.SetHeader(pairs("x-a", "2")))
			s.SetTrailer(pairs("x-t", "1"))
			return nil
		}},
		{name: "header/set and sent", play: listen, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("set", s.SetHeader(pairs("x-a", "1")))
			at.result("send", s.SendHeader(pairs("x-b", "2")))
			return send(s, "one")
		}},
		{name: "header/with the first message", play: listen, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("set", s.SetHeader(pairs("x-a", "1")))
			at.result("message", send(s, "one"))
			at.result("set later", s.SetHeader(pairs("x-a", "2")))
			at.result("send later", s.SendHeader(nil))
			s.SetTrailer(pairs("x-t", "1"))
			s.SetTrailer(pairs("x-t", "2"))
			return nil
		}},
		{name: "header/none", play: listen, handle: func(s grpc.ServerStream, _ *transcript) error { return send(s, "one") }},
		{name: "header/nothing at all", play: listen, handle: func(grpc.ServerStream, *transcript) error { return nil }},
		{name: "header/set, then an error", play: listen, handle: func(s grpc.ServerStream, _ *transcript) error {
			_ = s.SetHeader(pairs("x-a", "1"))
			s.SetTrailer(pairs("x-t", "1"))
			return status.Error(codes.NotFound, "handler: nothing")
		}},
		{name: "header/an error at once", play: listen, handle: func(s grpc.ServerStream, _ *transcript) error {
			s.SetTrailer(pairs("x-t", "1"))
			return status.Error(codes.NotFound, "handler: nothing")
		}},
		{name: "header/an error after a message", play: listen, handle: func(s grpc.ServerStream, _ *transcript) error {
			_ = s.SetHeader(pairs("x-a", "1"))
			_ = send(s, "one")
			return status.Error(codes.NotFound, "handler: nothing")
		}},
		{name: "header/sent empty", play: listen, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("send", s.SendHeader(nil))
			at.result("again", s.SendHeader(nil))
			return send(s, "one")
		}},
		{name: "header/before the handler receives", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen)
			headerOf(stream, seen) // which must come although nothing was sent
			seen.result("send", send(stream, "go"))
			seen.result("close", stream.CloseSend())
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, _ *transcript) error {
			_ = s.SendHeader(pairs("x-a", "1"))
			return s.RecvMsg(new(text))
		}},
		{name: "header/odd metadata of the handler", differs: `x-a=["line\nbreak"]`, play: answer, unary: func(ctx context.Context, in *text) (*text, error) {
			empty := grpc.SetHeader(ctx, pairs("", "1"))
			odd := grpc.SetHeader(ctx, pairs("x-a", "line\nbreak"))
			key := grpc.SetHeader(ctx, pairs("x ü", "1"))
			reserved := grpc.SetHeader(ctx, pairs("grpc-x", "1"))
			_ = grpc.SetTrailer(ctx, pairs("x-t", fmt.Sprint(status.Code(empty), status.Code(odd), status.Code(key), status.Code(reserved))))
			return in, nil
		}},
		{name: "header/odd metadata of the caller", differs: `x-seen=["[\"1\"] [] []"]`, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			for _, pair := range [][2]string{{"x ü", "1"}, {"x-a", "line\nbreak"}, {"x-a", "ü"}, {"grpc-mine", "1"}, {"x-space", "  kept  "}} {
				seen.note("%q", pair)
				invoke(metadata.AppendToOutgoingContext(ctx, pair[0], pair[1]), c, seen, "in")
			}
		}, unary: func(ctx context.Context, in *text) (*text, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			_ = grpc.SetTrailer(ctx, pairs("x-seen", fmt.Sprintf("%q %q %q", md["x ü"], md["x-a"], md["x-space"])))
			return in, nil
		}},
	}
}

// idle is a handler that waits until its caller has gone.
func idle(s grpc.ServerStream, _ *transcript) error {
	<-s.Context().Done()
	return nil
}

func streamScenes() []scene {
	echo := func(s grpc.ServerStream, at *transcript) error {
		for {
			in := new(text)
			if err := s.RecvMsg(in); err != nil {
				at.result("receive", err)
				at.result("receive again", s.RecvMsg(in))
				return nil
			}
			if err := s.SendMsg(in); err != nil {
				at.result("send", err)
				return err
			}
		}
	}
	return []scene{
		{name: "stream/echo", handle: echo, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen)
			for _, message := range []string{"one", "", "three"} {
				seen.result("send", send(stream, message))
			}
			seen.result("close", stream.CloseSend())
			seen.result("close again", stream.CloseSend())
			drain(stream, seen)
		}},
		{name: "stream/sends after CloseSend", handle: idle, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen)
			seen.result("close", stream.CloseSend())
			seen.result("send", send(stream, "late"))
			drain(stream, seen)
		}},
		{name: "stream/sends what is no message", handle: idle, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			finished := 0
			stream := open(ctx, c, both, seen, grpc.OnFinish(func(error) { finished++ }))
			seen.result("send", stream.SendMsg(7))
			seen.note("finished %d times", finished)
			drain(stream, seen)
			seen.note("finished %d times", finished)
		}},
		{name: "stream/the handler ignores that it sends what is no message", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen)
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("send", s.SendMsg(7))
			at.note("context: %v", s.Context().Err())
			return nil
		}},
		{name: "stream/sends after the end", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen)
			drain(stream, seen)
			seen.result("send", send(stream, "late"))
			seen.result("close", stream.CloseSend())
			headerOf(stream, seen)
		}, handle: func(grpc.ServerStream, *transcript) error { return status.Error(codes.Aborted, "handler: enough") }},
		{name: "stream/sends twice after the end", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, down, seen)
			drain(stream, seen)
			seen.result("send", send(stream, "late"))
			seen.result("send again", send(stream, "later"))
		}, handle: func(grpc.ServerStream, *transcript) error { return nil }},
		{name: "stream/sends until the server has ended", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, up, seen)
			for ctx.Err() == nil {
				if err := send(stream, strings.Repeat("x", 1000)); err != nil {
					seen.result("send", err)
					break
				}
			}
			drain(stream, seen)
		}, handle: func(grpc.ServerStream, *transcript) error { return status.Error(codes.Aborted, "handler: enough") }},
		{name: "stream/up", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, up, seen)
			seen.result("send", send(stream, "a"))
			seen.result("close", stream.CloseSend())
			reply := new(text)
			seen.result("receive", stream.RecvMsg(reply))
			seen.note("reply %q", reply.GetValue())
			seen.metadata("trailer", stream.Trailer())
		}, handle: func(s grpc.ServerStream, at *transcript) error {
			in := new(text)
			at.result("receive", s.RecvMsg(in))
			at.result("end", s.RecvMsg(new(text)))
			s.SetTrailer(metadata.Pairs("x-t", "1"))
			return s.SendMsg(in)
		}},
		{name: "stream/up without an answer", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, up, seen)
			seen.result("close", stream.CloseSend())
			seen.result("receive", stream.RecvMsg(new(text)))
		}, handle: func(grpc.ServerStream, *transcript) error { return nil }},
		{name: "stream/up with two answers", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, up, seen)
			seen.result("close", stream.CloseSend())
			seen.result("receive", stream.RecvMsg(new(text)))
		}, handle: func(s grpc.ServerStream, _ *transcript) error {
			_ = send(s, "one")
			_ = send(s, "two")
			return nil
		}},
		{name: "stream/up answered and failed", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, up, seen)
			seen.result("close", stream.CloseSend())
			seen.result("receive", stream.RecvMsg(new(text)))
		}, handle: func(s grpc.ServerStream, _ *transcript) error {
			_ = send(s, "one")
			return status.Error(codes.Aborted, "handler: after all")
		}},
		{name: "stream/down", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, down, seen)
			seen.result("send", send(stream, "3"))
			seen.result("close", stream.CloseSend())
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("receive", s.RecvMsg(new(text)))
			for range 3 {
				at.result("send", send(s, "message"))
			}
			return nil
		}},
		{name: "stream/down without a request", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, down, seen)
			seen.result("close", stream.CloseSend())
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, at *transcript) error {
			err := s.RecvMsg(new(text))
			at.result("receive", err)
			return err
		}},
		{name: "stream/down without a request, and nobody minds", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, down, seen)
			seen.result("close", stream.CloseSend())
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("receive", s.RecvMsg(new(text)))
			at.note("context: %v", s.Context().Err())
			return nil
		}},
		{name: "stream/unary by a stream", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream, err := c.NewStream(ctx, &grpc.StreamDesc{}, "/scene.Scene/Unary")
			seen.result("open", err)
			seen.result("send", send(stream, "in"))
			seen.result("close", stream.CloseSend())
			reply := new(text)
			seen.result("receive", stream.RecvMsg(reply))
			seen.note("reply %q", reply.GetValue())
		}, unary: func(_ context.Context, in *text) (*text, error) { return in, nil }},
		{name: "stream/unknown method", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream, err := c.NewStream(ctx, both, "/scene.Scene/None")
			seen.result("open", err)
			seen.result("receive", stream.RecvMsg(new(text)))
		}},
	}
}

// abandon opens a stream, which ends before anybody reads it, and notes what the call options get.
func abandon(ctx context.Context, c grpc.ClientConnInterface, seen *transcript, end func()) {
	var p peer.Peer
	var header metadata.MD
	finished := make(chan error, 10)
	stream := open(ctx, c, both, seen, grpc.Peer(&p), grpc.Header(&header), grpc.OnFinish(func(err error) { finished <- err }))
	headerOf(stream, seen)
	end()
	select {
	case err := <-finished:
		seen.result("finished", err)
	case <-time.After(10 * time.Second):
		seen.note("OnFinish was not called")
		return
	}
	<-stream.Context().Done()
	seen.note("peer: %v", p.Addr != nil)
	seen.metadata("header", header)
	drain(stream, seen)
	seen.note("finished %d times more", len(finished))
}

func endingScenes() []scene {
	steps := make(chan struct{}, 2) // the handler begins, and ends
	waits := func(s grpc.ServerStream, at *transcript) error {
		_ = s.SendHeader(nil)
		<-s.Context().Done()
		at.note("context: %v", s.Context().Err())
		err := s.RecvMsg(new(text))
		at.result("receive", err)
		return err
	}
	return []scene{
		{name: "ending/cancelled stream", handle: waits, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithCancel(ctx)
			stream := open(ctx, c, both, seen)
			headerOf(stream, seen)
			cancel()
			drain(stream, seen)
			headerOf(stream, seen)
			seen.result("open", func() error { _, err := c.NewStream(ctx, both, "/scene.Scene/Both"); return err }())
		}},
		{name: "ending/cancelled before the header", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithCancel(ctx)
			stream := open(ctx, c, both, seen)
			cancel()
			drain(stream, seen)
			headerOf(stream, seen)
		}, handle: idle},
		{name: "ending/stream past its deadline", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			stream := open(ctx, c, both, seen)
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, _ *transcript) error { <-s.Context().Done(); return s.Context().Err() }},
		{name: "ending/messages before the deadline", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			stream := open(ctx, c, both, seen)
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, _ *transcript) error {
			_ = send(s, "one")
			<-s.Context().Done()
			return s.Context().Err()
		}},
		{name: "ending/the context after the handler", play: answer, unary: func(ctx context.Context, in *text) (*text, error) {
			context.AfterFunc(ctx, func() {})
			return in, ctx.Err()
		}},
		{name: "ending/the stream's context", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			asked, unasked := open(ctx, c, both, seen), open(ctx, c, both, seen)
			p, ok := peer.FromContext(asked.Context())
			seen.note("peer: %v, context: %v", ok && p.Addr != nil, asked.Context().Err())
			drain(asked, seen)
			drain(unasked, seen)
			seen.note("contexts: %v, %v", asked.Context().Err(), unasked.Context().Err())
		}, handle: func(grpc.ServerStream, *transcript) error { return nil }},
		{name: "ending/nobody reads", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			cancelled, cancel := context.WithCancel(ctx)
			abandon(cancelled, c, seen, cancel)
			abandon(ctx, c, seen, func() { _ = c.(io.Closer).Close() })
		}, handle: func(s grpc.ServerStream, _ *transcript) error {
			_ = s.SendHeader(metadata.Pairs("x-a", "1"))
			<-s.Context().Done()
			return nil
		}},
		{name: "ending/only the header is asked for", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			var p peer.Peer
			var trailer metadata.MD
			finished := 0
			stream := open(ctx, c, both, seen, grpc.Peer(&p), grpc.Trailer(&trailer), grpc.OnFinish(func(err error) { finished++; seen.result("finished", err) }))
			headerOf(stream, seen)
			seen.note("peer: %v", p.Addr != nil)
			seen.metadata("trailer", trailer)
			drain(stream, seen)
			seen.note("finished %d times", finished)
		}, handle: func(s grpc.ServerStream, _ *transcript) error {
			s.SetTrailer(metadata.Pairs("x-t", "1"))
			return status.Error(codes.Aborted, "handler: enough")
		}},
		{name: "ending/metadata after the end", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			ctx, cancel := context.WithCancel(ctx)
			stream := open(ctx, c, both, seen)
			<-steps
			cancel()
			drain(stream, seen)
			<-steps
		}, handle: func(s grpc.ServerStream, at *transcript) error {
			steps <- struct{}{}
			defer func() { steps <- struct{}{} }()
			<-s.Context().Done()
			at.result("set nothing", s.SetHeader(nil))
			at.result("set", s.SetHeader(metadata.Pairs("x-a", "1")))
			at.result("send", s.SendHeader(metadata.Pairs("x-a", "1")))
			at.result("trailer", grpc.SetTrailer(s.Context(), metadata.Pairs("x-t", "1")))
			return nil
		}},
		{name: "ending/closed client", handle: waits, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen)
			headerOf(stream, seen)
			_ = c.(io.Closer).Close()
			drain(stream, seen)
			answer(ctx, c, seen)
		}},
	}
}

func limitScenes() []scene {
	echo := func(_ context.Context, in *text) (*text, error) { return in, nil }
	return []scene{
		{name: "limit/request", unary: echo, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			invoke(ctx, c, seen, strings.Repeat("x", 2*limit))
		}},
		{name: "limit/at the limit", unary: echo, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			invoke(ctx, c, seen, strings.Repeat("x", limit-3)) // and three bytes of Protocol Buffers
		}},
		{name: "limit/reply", play: answer, unary: func(context.Context, *text) (*text, error) {
			return wrapperspb.String(strings.Repeat("x", 2*limit)), nil
		}},
		{name: "limit/call's own", unary: echo, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			invoke(ctx, c, seen, strings.Repeat("x", 500), grpc.MaxCallSendMsgSize(100))
			invoke(ctx, c, seen, strings.Repeat("x", 500), grpc.MaxCallRecvMsgSize(100))
		}},
		{name: "limit/message of a stream", differs: "short: ok\nlong: ResourceExhausted", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen)
			seen.result("close", stream.CloseSend())
			drain(stream, seen)
		}, handle: func(s grpc.ServerStream, at *transcript) error {
			at.result("short", send(s, "short"))
			at.result("long", send(s, strings.Repeat("x", 2*limit)))
			return nil
		}},
		{name: "limit/message of a stream that is sent", play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			stream := open(ctx, c, both, seen, grpc.MaxCallSendMsgSize(100))
			seen.result("send", send(stream, strings.Repeat("x", 500)))
			drain(stream, seen)
		}, handle: idle},
		{name: "limit/options that are not there", differs: "call: Unimplemented\nreply 0 bytes, finished 1 times", unary: echo, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			invoke(ctx, c, seen, "in", grpc.CallContentSubtype("proto"))
		}},
		{name: "limit/options that change nothing", unary: echo, play: func(ctx context.Context, c grpc.ClientConnInterface, seen *transcript) {
			invoke(ctx, c, seen, "in", grpc.WaitForReady(true))
			invoke(ctx, c, seen, "in", grpc.StaticMethod())
		}},
	}
}
