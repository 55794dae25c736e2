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

// hostileServer attacks the one connection that it accepts, after its first call.
type hostileServer struct {
	net.Listener
	attack *attack
}

func (r *hostileServer) serve(t *testing.T) {
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
	r.attack.run(t, a)
}

// A clientAttack is an attack, with the codes that the attacked calls may end with.
type clientAttack struct {
	attack
	codes []codes.Code
}

func clientAttacks() []clientAttack {
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
	return []clientAttack{
		{attack{name: "pings", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WritePing(false, [8]byte{}) })}, lost},
		{attack{name: "settings", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WriteSettings() })}, lost},
		{attack{name: "settings that move windows", ends: calm, step: flood(nil, func(fr *http2.Framer) {
			_ = fr.WriteSettings(slices.Repeat([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 70000}}, 2000)...)
		})}, lost},
		{attack{name: "empty data", ends: calm, step: flood(answer(func(*http2.Framer) {}), func(fr *http2.Framer) { _ = fr.WriteData(1, false, nil) })}, lost},
		{attack{name: "continuations", ends: calm, step: flood(
			inMemory(func(fr *http2.Framer) {
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.BlockFragment})
			}),
			func(fr *http2.Framer) { _ = fr.WriteContinuation(1, false, nil) })}, lost},
		{attack{name: "early hints", ends: calm, step: flood(nil, func(fr *http2.Framer) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: block(":status", "103")})
		})}, lost},
		{attack{name: "resets", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WriteRSTStream(1, http2.ErrCodeCancel) })}, []codes.Code{codes.Canceled, codes.Unavailable}},
		// The client closes the connection after the GOAWAY, so the flood hits a closed one.
		{attack{name: "GOAWAYs", ends: calm, step: flood(nil, func(fr *http2.Framer) { _ = fr.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) })}, lost},
		{attack{name: "push", ends: protocol, step: once(inMemory(func(fr *http2.Framer) {
			_ = fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true, BlockFragment: requestTo("EmptyCall")})
		}))}, lost},
		{attack{name: "HPACK bomb", reset: http2.ErrCodeCancel, step: once(headers(hpackBomb(":status", "200", "content-type", "application/grpc"), 0))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{attack{name: "oversized header", reset: http2.ErrCodeCancel, step: once(headers(block(":status", "200", "content-type", "application/grpc", "big", strings.Repeat("\x01", 70_000)), 0))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{attack{name: "oversized frame", ends: []http2.ErrCode{http2.ErrCodeFrameSize}, step: once(answer(func(fr *http2.Framer) { _ = fr.WriteData(1, false, make([]byte, 1<<20)) }))}, lost},
		{attack{name: "claimed length", reset: http2.ErrCodeCancel, step: once(answer(func(fr *http2.Framer) {
			_ = fr.WriteData(1, false, []byte{0, 0xff, 0xff, 0xff, 0xff})
		}))}, []codes.Code{codes.ResourceExhausted, codes.Unavailable}},
		{attack{name: "connection window overflow", ends: flow, step: once(inMemory(func(fr *http2.Framer) {
			_ = fr.WriteWindowUpdate(0, 1<<31-1) // which fits, where the window has been used up
			_ = fr.WriteWindowUpdate(0, 1<<31-1)
		}))}, lost},
		{attack{name: "stream window overflow", reset: http2.ErrCodeFlowControl, step: once(inMemory(func(fr *http2.Framer) { _ = fr.WriteWindowUpdate(1, 1<<31-1) }))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{attack{name: "data beyond the window", reset: http2.ErrCodeFlowControl, step: once(answer(func(fr *http2.Framer) {
			for range 1000 { // on a stream that the client does not read
				_ = fr.WriteData(1, false, binary.BigEndian.AppendUint32([]byte{0}, 4096))
				_ = fr.WriteData(1, false, make([]byte, 4096))
			}
		}))}, []codes.Code{codes.Internal, codes.Unavailable}},
		{attack{name: "slow reader", readsNothing: true, step: once(nil)}, []codes.Code{codes.Unavailable}},
		{attack{name: "slow writer", step: writeSlowly(answer(func(fr *http2.Framer) { _ = fr.WriteData(1, false, []byte{0, 0, 1, 0, 0}) }))}, []codes.Code{codes.Unavailable}},
		{attack{name: "half-closed", ends: calm, step: halfClose}, lost},
		{attack{name: "another version", ends: []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeFrameSize}, step: func(a *attacker) error {
			_, err := io.WriteString(a.nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return err
		}}, lost},
	}
}

// TestHostileServers checks for each attack that the client reports the right error,
// that the attacked calls end, and that calls to other servers continue.
func TestHostileServers(t *testing.T) {
	auditBuffers(t)
	_, target := startFast(t)
	bystander := testgrpc.NewTestServiceClient(dialFast(t, target))
	for _, a := range clientAttacks() {
		t.Run(a.name, func(t *testing.T) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			c := dialFast(t, "passthrough:///"+lis.Addr().String(), WithMaxHeaderListSize(64<<10), func(o *clientOptions) { unforgiving(&o.limits) })
			checkAttackCost(t, bystander, func() {
				calls := &attackedCalls{codes: a.codes, opened: make(chan struct{}), done: make(chan struct{})}
				calls.start(t, testgrpc.NewTestServiceClient(c))
				(&hostileServer{lis, &a.attack}).serve(t)
				close(calls.done)
				calls.running.Wait()
			})
		})
	}
}

// attackedCalls are the calls on an attacked connection.
type attackedCalls struct {
	codes   []codes.Code  // the calls may end with these
	opened  chan struct{} // stream 1 is open
	done    chan struct{} // the attack has ended
	running sync.WaitGroup
}

func (v *attackedCalls) start(t *testing.T, c testgrpc.TestServiceClient) {
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

// stream makes the attacked call. It reads no response until the attack has ended.
func (v *attackedCalls) stream(ctx context.Context, c testgrpc.TestServiceClient) error {
	s, err := c.FullDuplexCall(ctx)
	close(v.opened)
	if err != nil {
		return err
	}
	<-v.done
	for err == nil {
		_, err = s.Recv()
	}
	return err
}

func (v *attackedCalls) unary(ctx context.Context, c testgrpc.TestServiceClient) error {
	<-v.opened
	_, err := c.UnaryCall(ctx, request(make([]byte, 1<<20)))
	return err
}

// TestSilentServer checks that a connection to a server that sends nothing is closed
// after the connect timeout, and the call fails with the reason.
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
