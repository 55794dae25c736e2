package fastgrpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

func requestTo(method string) []byte {
	return block(":method", "POST", ":scheme", "http", ":path", "/grpc.testing.TestService/"+method,
		":authority", "x", "content-type", "application/grpc", "te", "trailers")
}

// callFlood writes headers of many calls, each followed by what then writes.
func callFlood(method string, then func(fr *http2.Framer, id uint32)) func(*attacker) error {
	id := uint32(1)
	head := requestTo(method)
	return func(a *attacker) error {
		_, err := a.nc.Write(inMemory(func(fr *http2.Framer) {
			for range 500 {
				// Writes to memory cannot fail.
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndHeaders: true})
				then(fr, id)
				id += 2
			}
		}))
		return err
	}
}

var calm = []http2.ErrCode{http2.ErrCodeEnhanceYourCalm}

func serverAttacks() []attack {
	open := http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestTo("FullDuplexCall"), EndHeaders: true}
	opened := func(then func(fr *http2.Framer)) []byte {
		return inMemory(func(fr *http2.Framer) {
			_ = fr.WriteHeaders(open)
			then(fr)
		})
	}
	flood := func(p []byte) func(*attacker) error {
		many := bytes.Repeat(p, 100)
		return func(a *attacker) error {
			_, err := a.nc.Write(many)
			return err
		}
	}
	first := func(p []byte, step func(*attacker) error) func(*attacker) error {
		return func(a *attacker) error {
			if p != nil {
				if _, err := a.nc.Write(p); err != nil {
					return err
				}
				p = nil
			}
			return step(a)
		}
	}
	return []attack{
		// A reset call costs no more than one that ends, and holds its place until then.
		{name: "rapid reset", step: times(60, callFlood("FullDuplexCall", func(fr *http2.Framer, id uint32) {
			_ = fr.WriteRSTStream(id, http2.ErrCodeCancel)
		}))},
		{name: "resets provoked by updates", ends: calm, step: callFlood("FullDuplexCall", func(fr *http2.Framer, id uint32) {
			_ = fr.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4))
		})},
		{name: "resets provoked by late data", ends: calm, step: callFlood("UnaryCall", func(fr *http2.Framer, id uint32) {
			_ = fr.WriteData(id, true, endless)
			_ = fr.WriteData(id, false, make([]byte, 1))
		})},
		{name: "pings", ends: calm, step: flood(inMemory(func(fr *http2.Framer) { _ = fr.WritePing(false, [8]byte{}) }))},
		{name: "settings", ends: calm, step: flood(inMemory(func(fr *http2.Framer) { _ = fr.WriteSettings() }))},
		{name: "settings that move windows", ends: calm, step: flood(inMemory(func(fr *http2.Framer) {
			_ = fr.WriteSettings(slices.Repeat([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 70000}}, 2000)...)
		}))},
		{name: "empty data", ends: calm, step: first(opened(func(*http2.Framer) {}), flood(inMemory(func(fr *http2.Framer) { _ = fr.WriteData(1, false, nil) })))},
		{name: "continuations", ends: calm, step: first(
			inMemory(func(fr *http2.Framer) {
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: open.BlockFragment})
			}),
			flood(inMemory(func(fr *http2.Framer) { _ = fr.WriteContinuation(1, false, nil) })))},
		{name: "HPACK bomb", status: "431", step: once(inMemory(func(fr *http2.Framer) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true, BlockFragment: hpackBomb(
				":method", "POST", ":scheme", "http", ":path", "/a/b", ":authority", "x", "content-type", "application/grpc")})
		}))},
		{name: "oversized header", status: "431", step: once(inMemory(func(fr *http2.Framer) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true, BlockFragment: block(
				":method", "POST", ":scheme", "http", ":path", "/a/b", ":authority", "x", "content-type", "application/grpc", "big", strings.Repeat("\x01", 70_000))})
		}))},
		{name: "oversized frame", ends: []http2.ErrCode{http2.ErrCodeFrameSize}, step: once(opened(func(fr *http2.Framer) { _ = fr.WriteData(1, false, make([]byte, 1<<20)) }))},
		{name: "connection window overflow", ends: []http2.ErrCode{http2.ErrCodeFlowControl}, step: once(inMemory(func(fr *http2.Framer) { _ = fr.WriteWindowUpdate(0, 1<<31-1) }))},
		{name: "stream window overflow", reset: http2.ErrCodeFlowControl, step: once(opened(func(fr *http2.Framer) { _ = fr.WriteWindowUpdate(1, 1<<31-1) }))},
		{name: "data beyond the window", reset: http2.ErrCodeFlowControl, step: once(opened(func(fr *http2.Framer) {
			for range 1000 { // the handler stops reading when its responses are not read
				_ = fr.WriteData(1, false, append([]byte{0, 0, 0, 16, 0}, echoed(4096)...))
			}
		}))},
		{name: "unread answers", readsNothing: true, step: unreadAnswers()},
		{name: "unread resets", readsNothing: true, step: untilBlocked(callFlood("UnaryCall", func(fr *http2.Framer, id uint32) {
			_ = fr.WriteWindowUpdate(id, 1<<31-1)
		}))},
		{name: "slow reader", readsNothing: true, step: once(inMemory(greedy))},
		{name: "slow writer", step: writeSlowly(opened(func(fr *http2.Framer) { _ = fr.WriteData(1, false, []byte{0, 0, 1, 0, 0}) }))},
		{name: "half-closed", ends: calm, step: halfClose},
		{name: "another version", ends: []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeFrameSize}, step: func(a *attacker) error {
			_, err := io.WriteString(a.nc, "GET / HTTP/1.1\r\n\r\n")
			return err
		}},
	}
}

// unreadAnswers asks for a method that does not exist, with few bytes and for long
// answers, and goes on until the server reads no more.
func unreadAnswers() func(*attacker) error {
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	encode := func() []byte {
		head.Reset()
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "POST"},
			{Name: ":scheme", Value: "http"},
			{Name: ":path", Value: "/" + strings.Repeat("%", 3800)},
			{Name: ":authority", Value: "x"},
			{Name: "content-type", Value: "application/grpc"},
		} {
			_ = enc.WriteField(f)
		}
		return bytes.Clone(head.Bytes())
	}
	next, indexed := encode(), encode()
	id := uint32(1)
	return untilBlocked(func(a *attacker) error {
		_, err := a.nc.Write(inMemory(func(fr *http2.Framer) {
			for range 1000 {
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: next})
				next = indexed
				id += 2
			}
		}))
		return err
	})
}

// untilBlocked returns a step that is done when the peer has taken nothing for a second.
// It fails if the peer takes more than any socket buffers.
func untilBlocked(step func(*attacker) error) func(*attacker) error {
	taken := 0
	return func(a *attacker) error {
		_ = a.nc.SetWriteDeadline(time.Now().Add(time.Second))
		err := step(a)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errAttackDone
		}
		if taken++; taken > 5000 {
			return os.ErrDeadlineExceeded // which run reports
		}
		return err
	}
}

// endless is the request of a call that lasts until it is cancelled.
var endless = func() []byte {
	data, err := proto.Marshal(&testgrpc.SimpleRequest{ResponseSize: -1})
	if err != nil {
		panic(err) // it is well-formed
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...)
}()

// echoed is a StreamingOutputCallRequest of n bytes, for FullDuplexCall to send back.
func echoed(n int) []byte {
	body := n - 6 // two tags, two lengths of two bytes
	head := []byte{3<<3 | 2, byte(body+3)&0x7f | 0x80, byte((body + 3) >> 7), 2<<3 | 2, byte(body)&0x7f | 0x80, byte(body >> 7)}
	return append(head, make([]byte, body)...)
}

// greedy asks for gigabytes, with the largest possible windows.
func greedy(fr *http2.Framer) {
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	_ = fr.WriteWindowUpdate(0, 1<<30)
	in := &testgrpc.StreamingOutputCallRequest{}
	for range 1000 {
		in.ResponseParameters = append(in.ResponseParameters, &testgrpc.ResponseParameters{Size: 64 << 10})
	}
	data, _ := proto.Marshal(in)
	head := requestTo("StreamingOutputCall")
	for id := uint32(1); id < 200; id += 2 {
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndHeaders: true})
		_ = fr.WriteData(id, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...))
	}
}

// TestHostileClients checks for each attack that the server reports the right error,
// serves other clients, uses little CPU and memory, and keeps nothing afterwards.
func TestHostileClients(t *testing.T) {
	auditBuffers(t)
	s, target := startFast(t, ConnectionTimeout(200*time.Millisecond), MaxHeaderListSize(64<<10), func(o *serverOptions) { unforgiving(&o.limits) })
	c := testgrpc.NewTestServiceClient(dialFast(t, target))
	for _, attack := range serverAttacks() {
		t.Run(attack.name, func(t *testing.T) {
			checkAttackCost(t, c, func() {
				nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
				if err != nil {
					t.Error(err)
					return
				}
				a := newAttacker(nc)
				if attack.name != "another version" {
					_, _ = io.WriteString(nc, http2.ClientPreface)
					_ = a.WriteSettings()
				}
				attack.run(t, a)
			})
		})
	}
	eventually(t, "for all connections but the bystander's to go", func() bool { return len(s.Conns()) == 1 })
}

// TestSilentClient checks that a connection that never begins HTTP/2 or TLS is closed
// after the handshake timeout.
func TestSilentClient(t *testing.T) {
	secure, _ := tlsForTests(t)
	for name, opts := range map[string][]ServerOption{"cleartext": nil, "TLS": {Creds(secure)}} {
		t.Run(name, func(t *testing.T) {
			_, target := startFast(t, append(opts, ConnectionTimeout(50*time.Millisecond))...)
			nc, err := net.Dial("tcp", strings.TrimPrefix(target, "passthrough:///"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
			_ = nc.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, nc); err != nil {
				t.Errorf("the server does not close: %v", err)
			}
		})
	}
}
