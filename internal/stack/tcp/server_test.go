package tcp

import (
	"context"
	"fmt"
	"testing"
	"time"

	"wirelab.dev/internal/workload/echo/echopb"
)

// patience bounds what must happen at last. Only a failing test comes near it.
const patience = time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func connectionsOf(s *server) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// awaitConnections waits until the server has so many.
func awaitConnections(t *testing.T, s *server, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the server has %d connections", want), func() bool { return connectionsOf(s) == want })
}

// countedEcho tells of each call.
type countedEcho struct {
	echo
	called chan struct{}
}

func (c countedEcho) Echo(ctx context.Context, in *echopb.Payload) (*echopb.Payload, error) {
	c.called <- struct{}{}
	return c.echo.Echo(ctx, in)
}

// A peer that stops within a frame is let go; one that is silent between two
// calls is not. The test makes the patrol's rounds.
func TestStalledPeersAreLetGo(t *testing.T) {
	s := newServer(settings{framing: framingAuto})
	service := countedEcho{called: make(chan struct{}, 10)}
	echopb.RegisterEchoServiceServer(s, service)
	address := serve(t, s)
	patrolUntilOneIsLeft := func() {
		t.Helper()
		eventually(t, "the peer that stalls is let go", func() bool {
			s.round()
			return connectionsOf(s) == 1
		})
	}
	silent := dialRaw(t, address)
	expectEcho(t, newPlainEnd(silent, false).call, "before")
	<-service.called

	half := dialRaw(t, address)
	awaitConnections(t, s, 2)
	write(t, half, []byte{0, 0, 0, 100, 1, 2, 3})
	patrolUntilOneIsLeft()

	deaf := dialRaw(t, address)
	awaitConnections(t, s, 2)
	// The answer fills every buffer on the way.
	write(t, deaf, must(appendPlain(nil, &echopb.Payload{Data: make([]byte, 15<<20)})))
	<-service.called
	patrolUntilOneIsLeft()

	expectEcho(t, newPlainEnd(silent, false).call, "after")
}

// A peer that is slow but goes on is served: the patrol comes round after each
// byte.
func TestSlowPeersAreServed(t *testing.T) {
	s := newServer(settings{framing: framingAuto})
	echopb.RegisterEchoServiceServer(s, echo{})
	conn := dialRaw(t, serve(t, s))
	awaitConnections(t, s, 1)
	var served *serverConn
	s.mu.Lock()
	for served = range s.conns { // the only one
	}
	s.mu.Unlock()
	in := &echopb.Payload{Data: make([]byte, 60)}
	frame := must(appendPlain(nil, in))
	for i, b := range frame[:len(frame)-1] {
		before := served.reading.number.Load()
		write(t, conn, []byte{b})
		if i < 3 {
			continue // of the length
		}
		eventually(t, "the server waits for the next byte", func() bool {
			now := served.reading.number.Load()
			return now != 0 && now != before
		})
		s.round()
	}
	write(t, conn, frame[len(frame)-1:])
	var out echopb.Payload
	if err := newPlainEnd(conn, false).read(&out); err != nil || len(out.Data) != len(in.Data) {
		t.Errorf("a slow client is answered with %v, %v", &out, err)
	}
}

func TestSpell(t *testing.T) {
	var s spell
	look := func(want bool, when string) {
		t.Helper()
		if got := s.lasts(); got != want {
			t.Errorf("%s: lasts is %v", when, got)
		}
	}
	look(false, "before the first")
	s.begin()
	look(false, "the first time it is seen")
	look(true, "the second time")
	s.end()
	s.begin()
	look(false, "another one")
	s.end()
	look(false, "after it")
	var forever *spell
	forever.begin()
	forever.end()
}
