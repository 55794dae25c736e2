package fastgrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// rogue is a server that attacks the one connection it accepts, once a call has come.
type rogue struct {
	net.Listener
	assault *assault
}

func (r *rogue) serve(t *testing.T) {
	nc, err := r.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	_ = r.Close() // one connection is enough
	a := newAttacker(nc)
	if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
		t.Error(err)
	}
	if err := a.WriteSettings(); err != nil {
		t.Error(err)
	}
	for called := false; !called; {
		frame, err := a.ReadFrame()
		if err != nil {
			t.Error(err)
			break
		}
		_, called = frame.(*http2.MetaHeadersFrame)
	}
	r.assault.run(t, a)
}

// clientAssault is an assault and how the calls that meet it may end.
type clientAssault struct {
	assault
	codes []codes.Code
}

func clientAssaults() []clientAssault {
	head := http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: block(":status", "200", "content-type", "application/grpc")}
	answer := func(then func(fr *http2.Framer)) []byte {
		return inMemory(func(fr *http2.Framer) {
			_ = fr.WriteHeaders(head)
			then(fr)
		})
	}
	flood := func(before []byte, f func(fr *http2.Framer)) func(*attacker) error {
		many := bytes.Repeat(inMemory(f), 100)
		return func(a *attacker) error {
			if before != nil {
				if _, err := a.nc.Write(before); err != nil {
					return err
				}
				before = nil
			}
			_, err := a.nc.Write(many)
			return err
		}
	}
	headers := func(fields []byte, flags http2.Flags) []byte {
		return inMemory(func(fr *http2.Framer) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: flags&http2.FlagHeadersEndStream != 0, BlockFragment: fields})
		})
	}
	lost := []codes.Code{codes.Unavailable}
	protocol, flow := []http2.ErrCode{http2.ErrCodeProtocol}, []http2.ErrCode{http2.ErrCodeFlowControl}
	return []clientAssault{
		{assault{name: "pings", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WritePing(false, [8]byte{}) })}, lost},
		{assault{name: "settings", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WriteSettings() })}, lost},
		{assault{name: "settings that move windows", ends: calm, step: flood(nil, func(fr *http2.Framer) {
			_ = fr.WriteSettings(slices.Repeat([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 70000}}, 2000)...)
		})}, lost},
		{assault{name: "empty data", ends: calm, step: flood(answer(func(*http2.Framer) {}), func(fr *http2.Framer) { _ = fr.WriteData(1, false, nil) })}, lost},
		{assault{name: "continuations", ends: calm, step: flood(
			inMemory(func(fr *http2.Framer) {
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.BlockFragment})
			}),
			func(fr *http2.Framer) { _ = fr.WriteContinuation(1, false, nil) })}, lost},
		{assault{name: "early hints", ends: calm, step: flood(nil, func(fr *http2.Framer) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: block(":status", "103")})
		})}, lost},
		{assault{name: "resets", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WriteRSTStream(1, http2.ErrCodeCancel) })}, []codes.Code{codes.Canceled, codes.Unavailable}},
		// The connection is left when it is announced to end, so the flood meets a closed one.
		{assault{name: "GOAWAYs", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) })}, lost},
		{assault{name: "push", ends: protocol, step: once(inMemory(func(fr *http2.Framer) {
			_ = fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true, BlockFragment: requestTo("EmptyCall")})
		}))}, lost},
		{assault{name: "HPACK bomb", reset: http2.ErrCodeCancel, step: once(headers(hpackBomb(":status", "200", "content-type", "application/grpc"), 0))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{assault{name: "oversized header", reset: http2.ErrCodeCancel, step: once(headers(block(":status", "200", "content-type", "application/grpc", "big", strings.Repeat("\x01", 70_000)), 0))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{assault{name: "oversized frame", ends: []http2.ErrCode{http2.ErrCodeFrameSize}, step: once(answer(func(fr *http2.Framer) { _ = fr.WriteData(1, false, make([]byte, 1<<20)) }))}, lost},
		{assault{name: "claimed length", reset: http2.ErrCodeCancel, step: once(answer(func(fr *http2.Framer) {
			_ = fr.WriteData(1, false, []byte{0, 0xff, 0xff, 0xff, 0xff})
		}))}, []codes.Code{codes.ResourceExhausted, codes.Unavailable}},
		{assault{name: "connection window overflow", ends: flow, step: once(inMemory(func(fr *http2.Framer) {
			_ = fr.WriteWindowUpdate(0, 1<<31-1) // which fits, where the window has been used up
			_ = fr.WriteWindowUpdate(0, 1<<31-1)
		}))}, lost},
		{assault{name: "stream window overflow", reset: http2.ErrCodeFlowControl, step: once(inMemory(func(fr *http2.Framer) { _ = fr.WriteWindowUpdate(1, 1<<31-1) }))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{assault{name: "data beyond the window", reset: http2.ErrCodeFlowControl, step: once(answer(func(fr *http2.Framer) {
			for range 1000 { // of a stream that nobody reads
				_ = fr.WriteData(1, false, binary.BigEndian.AppendUint32([]byte{0}, 4096))
				_ = fr.WriteData(1, false, make([]byte, 4096))
			}
		}))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{assault{name: "slow reader", deaf: true, step: once(nil)}, []codes.Code{codes.Unavailable}},
		{assault{name: "slow writer", step: dribble(answer(func(fr *http2.Framer) { _ = fr.WriteData(1, false, []byte{0, 0, 1, 0, 0}) }))}, []codes.Code{codes.Unavailable}},
		{assault{name: "half-closed", ends: calm, step: halfClose}, lost},
		{assault{name: "another version", ends: []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeFrameSize}, step: func(a *attacker) error {
			_, err := io.WriteString(a.nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return err
		}}, lost},
	}
}

// TestHostileServers: whatever a server does to its clients' connection, it is told
// what is wrong, their calls end, and calls to others go on.
func TestHostileServers(t *testing.T) {
	auditBuffers(t)
	_, target := startFast(t)
	bystander := testgrpc.NewTestServiceClient(dialFast(t, target))
	for _, a := range clientAssaults() {
		t.Run(a.name, func(t *testing.T) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			c := dialFast(t, "passthrough:///"+lis.Addr().String())
			besiege(t, bystander, func() {
				calls := &victims{codes: a.codes, begun: make(chan struct{}), over: make(chan struct{})}
				calls.start(t, testgrpc.NewTestServiceClient(c))
				(&rogue{lis, &a.assault}).serve(t)
				close(calls.over)
				calls.running.Wait()
			})
		})
	}
}

// victims are the calls on an attacked connection.
type victims struct {
	codes   []codes.Code  // that they may end with
	begun   chan struct{} // stream 1 is open
	over    chan struct{} // the attack is
	running sync.WaitGroup
}

func (v *victims) start(t *testing.T, c testgrpc.TestServiceClient) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	for i := range 10 {
		v.running.Add(1)
		go func() {
			defer v.running.Done()
			call := v.unary
			if i == 0 {
				call = v.stream
			}
			if err := call(ctx, c); !slices.Contains(v.codes, status.Code(err)) {
				t.Errorf("a call ended with %v", err)
			}
		}()
	}
}

// stream is the call that is attacked. Its answer is not read until the attack is over.
func (v *victims) stream(ctx context.Context, c testgrpc.TestServiceClient) error {
	s, err := c.FullDuplexCall(ctx)
	close(v.begun)
	if err != nil {
		return err
	}
	<-v.over
	for err == nil {
		_, err = s.Recv()
	}
	return err
}

func (v *victims) unary(ctx context.Context, c testgrpc.TestServiceClient) error {
	<-v.begun
	_, err := c.UnaryCall(ctx, request(make([]byte, 1<<20)))
	return err
}

// TestSilentServer: a server that accepts and says nothing is given up in time, and the
// call fails with the reason.
func TestSilentServer(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	_, secure := tlsForTests(t)
	for name, creds := range map[string]credentials.TransportCredentials{"cleartext": insecure.NewCredentials(), "TLS": secure} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dialFast(t, "passthrough:///"+lis.Addr().String(), WithConnectParams(quickConnect), WithTransportCredentials(creds))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := ping(ctx, c); status.Code(err) != codes.Unavailable || ctx.Err() != nil {
				t.Errorf("a call to a silent server: %v", err)
			}
		})
	}
}
