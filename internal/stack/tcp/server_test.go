package tcp

import (
	"testing"
	"time"

	"wirelab.dev/internal/workload/echo/echopb"
)

// startImpatient serves echo with a patrol that goes round so often.
func startImpatient(t *testing.T, round time.Duration) (s *server, address string) {
	t.Helper()
	s = newServer(settings{framing: framingAuto})
	s.patrol = round
	echopb.RegisterEchoServiceServer(s, echo{})
	return s, serve(t, s)
}

// awaitConnections waits until the server has so many.
func awaitConnections(t *testing.T, s *server, want int) {
	t.Helper()
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns)
	}
	for deadline := time.Now().Add(10 * time.Second); count() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server has %d connections, want %d", count(), want)
		}
	}
}

// A peer that stops within a frame is let go; one that is silent between two
// calls is not.
func TestStalledPeersAreLetGo(t *testing.T) {
	s, address := startImpatient(t, 100*time.Millisecond)
	silent := dialRaw(t, address)
	expectEcho(t, newPlainEnd(silent, false).call, "before")

	half := dialRaw(t, address)
	awaitConnections(t, s, 2)
	write(t, half, []byte{0, 0, 0, 100, 1, 2, 3})
	awaitConnections(t, s, 1)

	deaf := dialRaw(t, address)
	awaitConnections(t, s, 2)
	// The answer fills every buffer on the way.
	write(t, deaf, must(appendPlain(nil, &echopb.Payload{Data: make([]byte, 15<<20)})))
	awaitConnections(t, s, 1)

	expectEcho(t, newPlainEnd(silent, false).call, "after")
}

// A peer that is slow but goes on is served.
func TestSlowPeersAreServed(t *testing.T) {
	_, address := startImpatient(t, 150*time.Millisecond)
	conn := dialRaw(t, address)
	in := &echopb.Payload{Data: make([]byte, 60)}
	for _, b := range must(appendPlain(nil, in)) {
		write(t, conn, []byte{b})
		time.Sleep(10 * time.Millisecond) // the patrol comes round several times in all
	}
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
