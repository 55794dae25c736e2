package stacktest

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"

	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest/testpb"
)

// commonGarbage is no answer and no question on any wire here. Each is sent
// whole and then closed.
func commonGarbage() map[string][]byte {
	garbage := map[string][]byte{
		"one byte":          {0x80},
		"ones":              filled(0xff, 64),
		"an old web answer": []byte("HTTP/1.0 418 I'm a teapot\r\n\r\nshort and stout"),
		"TLS's greeting":    clientHello(),
	}
	for seed := range byte(5) {
		// The first byte makes it an impossible length, frame and method.
		garbage[fmt.Sprintf("random bytes %d", seed)] = append([]byte{0xf0 | seed}, filling(1000, seed)...)
	}
	return garbage
}

func filled(value byte, count int) []byte {
	b := make([]byte, count)
	for i := range b {
		b[i] = value
	}
	return b
}

// clientHello is what a TLS client says first.
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

// checkPeerSendsGarbage sends it to the server, beside a good client and a
// connection that never says a word.
func checkPeerSendsGarbage(t testing.TB, s Subject) {
	r := start(t, s)
	stub := r.stub()
	expectEcho(t, stub, "before")
	mute, err := net.Dial(s.network(), r.address)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	expectFreshEcho(t, r, "after the mute one") // which the server has taken in before it
	before := steady(func() int { return goroutines(s.label).count })

	garbage := commonGarbage()
	maps.Copy(garbage, s.Garbage)
	garbage["a web request"] = []byte("GET / HTTP/1.1\r\nHost: wirelab.test\r\n\r\n")
	garbage["nothing"] = nil
	for name, bytes := range garbage {
		conn, err := net.Dial(s.network(), r.address)
		if err != nil {
			t.Fatalf("%s: the server takes no connections any more: %v", name, err)
		}
		_, _ = conn.Write(bytes) // the server may have hung up already
		if name == "nothing" || len(bytes)%2 == 0 {
			if tcp, is := conn.(*net.TCPConn); is {
				_ = tcp.SetLinger(0) // some peers leave with a reset
			}
		}
		_ = conn.Close()
	}
	expectEcho(t, stub, "the same client")
	expectFreshEcho(t, r, "a fresh client")
	if after := settle(t, s.label, before); after > before {
		t.Errorf("%d goroutines before the garbage, %d after it:\n%s", before, after, strings.Join(goroutines(s.label).stacks, "\n\n"))
	}
}

// expectFreshEcho makes a call with a client of its own.
func expectFreshEcho(t testing.TB, r *rig, body string) {
	t.Helper()
	client, err := r.subject.Stack.NewClient(bounded(t), r.subject.Variant, r.subject.target(stack.Target{Address: r.address}))
	if err != nil {
		t.Fatalf("NewClient: %v", err)
	}
	expectEcho(t, testpb.NewTestServiceClient(client), body)
	if err := client.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
