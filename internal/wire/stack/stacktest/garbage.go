package stacktest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// commonGarbage returns bytes that are neither a request nor an answer on any wire
// here. Each is sent whole, and the connection closed.
func commonGarbage() map[string][]byte {
	garbage := map[string][]byte{
		"one byte":          {0x80},
		"ones":              bytes.Repeat([]byte{0xff}, 64),
		"an old web answer": []byte("HTTP/1.0 418 I'm a teapot\r\n\r\nshort and stout"),
		"TLS's greeting":    clientHello(),
	}
	for seed := range byte(5) {
		// The first byte makes it an impossible length, frame and method.
		garbage[fmt.Sprintf("random bytes %d", seed)] = append([]byte{0xf0 | seed}, filling(1000, seed)...)
	}
	return garbage
}

// clientHello returns the first bytes that a TLS client sends.
func clientHello() []byte {
	here, there := net.Pipe()
	defer func() { _ = here.Close() }()
	go func() {
		_ = tls.Client(there, &tls.Config{ServerName: "wirelab.test"}).Handshake()
		_ = there.Close()
	}()
	buffer := make([]byte, 4096)
	n, _ := here.Read(buffer)
	return buffer[:n]
}

// checkPeerSendsGarbage sends garbage to the server, beside a good client and a
// connection that sends nothing.
func checkPeerSendsGarbage(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	expectEcho(t, stub, "before")
	count := func() int { return goroutines(s.label).without(s.Idle).count }
	before := steady(count) // without the mute one, which the server may not yet have begun to serve when it is counted
	mute, err := net.Dial(s.network(), r.address)
	noError(t, "dial", err)
	t.Cleanup(func() { _ = mute.Close() })
	expectFreshEcho(t, r, "beside the mute one")

	garbage := commonGarbage()
	maps.Copy(garbage, s.Garbage)
	garbage["a web request"] = []byte("GET / HTTP/1.1\r\nHost: wirelab.test\r\n\r\n")
	garbage["nothing"] = nil
	for name, data := range garbage {
		conn, err := net.Dial(s.network(), r.address)
		if err != nil {
			t.Fatalf("%s: the server takes no connections any more: %v", name, err)
		}
		_, _ = conn.Write(data) // the server may have hung up already
		if name == "nothing" || len(data)%2 == 0 {
			if tcp, is := conn.(*net.TCPConn); is {
				_ = tcp.SetLinger(0) // some peers leave with a reset
			}
		}
		_ = conn.Close()
	}
	expectEcho(t, stub, "the same client")
	expectFreshEcho(t, r, "a fresh client")
	_ = mute.Close()
	expectAtMost(t, "goroutines", before, count)
	if t.Failed() {
		t.Logf("the goroutines:\n%s", strings.Join(goroutines(s.label).stacks, "\n\n"))
	}
}

// expectFreshEcho makes a call with a client of its own.
func expectFreshEcho(t testing.TB, r *rig, body string) {
	t.Helper()
	useClient(t, r.subject, r.subject.target(stack.Target{Address: r.address}), func(stub testpb.TestServiceClient) { expectEcho(t, stub, body) })
}
