package tcp

import (
	"context"
	"fmt"
	"testing"
	"time"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// patience bounds every wait of these tests. Only a failing test reaches it.
const patience = time.Minute

// eventually waits until so returns true.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func connectionsOf(s *server) int {
	s.conns.Mu.Lock()
	defer s.conns.Mu.Unlock()
	return len(s.conns.Open)
}

// awaitConnections waits until the server has want connections.
func awaitConnections(t *testing.T, s *server, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the server has %d connections", want), func() bool { return connectionsOf(s) == want })
}

// countedEcho sends on called for each call.
type countedEcho struct {
	echo
	called chan struct{}
}

func (c countedEcho) Echo(ctx context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	c.called <- struct{}{}
	return c.echo.Echo(ctx, in)
}

// The server disconnects a peer that stops within a frame, and keeps one that is
// silent between two calls. The test calls closeStalled itself.
func TestStalledPeersAreDisconnected(t *testing.T) {
	s := newServer(settings{framing: framingAuto})
	service := countedEcho{called: make(chan struct{}, 10)}
	echopb.RegisterEchoServiceServer(s, service)
	address := serve(t, s)
	checkUntilOneIsLeft := func() {
		t.Helper()
		eventually(t, "the stalled peer is disconnected", func() bool {
			s.closeStalled()
			return connectionsOf(s) == 1
		})
	}
	silent := dialRaw(t, address)
	expectEcho(t, newPlainEnd(silent, false).call, "before")
	<-service.called

	half := dialRaw(t, address)
	awaitConnections(t, s, 2)
	write(t, half, []byte{0, 0, 0, 100, 1, 2, 3})
	checkUntilOneIsLeft()

	deaf := dialRaw(t, address)
	awaitConnections(t, s, 2)
	// The answer fills every buffer on the way.
	write(t, deaf, must(appendFrame(nil, kindPlain, &echopb.Payload{Data: make([]byte, 15<<20)})))
	<-service.called
	checkUntilOneIsLeft()

	expectEcho(t, newPlainEnd(silent, false).call, "after")
}

// The server answers a slow peer that makes progress: closeStalled runs after each
// byte.
func TestSlowPeersAreServed(t *testing.T) {
	s := newServer(settings{framing: framingAuto})
	echopb.RegisterEchoServiceServer(s, echo{})
	conn := dialRaw(t, serve(t, s))
	awaitConnections(t, s, 1)
	var served *serverConn
	s.conns.Mu.Lock()
	for served = range s.conns.Open { // the only one
	}
	s.conns.Mu.Unlock()
	in := &echopb.Payload{Data: make([]byte, 60)}
	frame := must(appendFrame(nil, kindPlain, in))
	for i, b := range frame[:len(frame)-1] {
		before := served.readWait.number.Load()
		write(t, conn, []byte{b})
		if i < 3 {
			continue // of the length
		}
		eventually(t, "the server waits for the next byte", func() bool {
			now := served.readWait.number.Load()
			return now != 0 && now != before
		})
		s.closeStalled()
	}
	write(t, conn, frame[len(frame)-1:])
	var out echopb.Payload
	if err := newPlainEnd(conn, false).read(&out); err != nil || len(out.Data) != len(in.Data) {
		t.Errorf("a slow client is answered with %v, %v", &out, err)
	}
}

func TestPeerWaitStalls(t *testing.T) {
	var w peerWait
	look := func(want bool, when string) {
		t.Helper()
		if got := w.hasStalled(); got != want {
			t.Errorf("%s: stalled() = %v", when, got)
		}
	}
	look(false, "before the first")
	w.begin()
	look(false, "the first time it is seen")
	look(true, "the second time")
	w.end()
	w.begin()
	look(false, "another one")
	w.end()
	look(false, "after it")
	var forever *peerWait
	forever.begin()
	forever.end()
}

// heldEcho answers when it is told to.
type heldEcho struct {
	countedEcho
	release chan struct{}
}

func (h heldEcho) Echo(ctx context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	h.called <- struct{}{}
	<-h.release
	return h.echo.Echo(ctx, in)
}

// A gate of one lets one call in at a time, in both framings, and is free again after calls
// that end badly.
func TestTheGateLetsSoManyCallsIn(t *testing.T) {
	for _, framing := range []string{framingPlain, framingCalls} {
		service := heldEcho{countedEcho{called: make(chan struct{}, 10)}, make(chan struct{})}
		server, err := Stack{}.NewServer(parse(t, "tcp:gate=1"))
		if err != nil {
			t.Fatal(err)
		}
		echopb.RegisterEchoServiceServer(server, service)
		address := serve(t, server)
		half := dialRaw(t, address)
		write(t, half, []byte{0, 0, 0, 100, 1, 2, 3}) // a call that never comes whole
		s := server.(interface{ inGate() int })
		eventually(t, "the first call is let in", func() bool { return s.inGate() == 1 })
		_ = half.Close()
		const calls = 5
		done := make(chan error, calls)
		for range calls {
			client, err := Stack{}.NewClient(t.Context(), parse(t, "tcp:framing="+framing), stack.Target{Address: address, Operations: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			go func() { // ends with its call
				_, err := callerOf(t, client)(&echopb.Payload{})
				done <- err
			}()
		}
		for range calls {
			<-service.called
			if n := len(service.called); n > 0 {
				t.Errorf("%s: %d calls were let in beside another", framing, n)
			}
			service.release <- struct{}{}
			if err := <-done; err != nil {
				t.Errorf("%s: %v", framing, err)
			}
		}
		eventually(t, "the gate is free", func() bool { return s.inGate() == 0 })
	}
}

func (s *server) inGate() int { return len(s.gate) }
