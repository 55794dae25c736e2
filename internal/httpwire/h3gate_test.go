package httpwire

import (
	"encoding/binary"
	"testing"
	"time"
)

// opening is a packet that begins a connection.
func opening(kind byte, id string) []byte {
	packet := make([]byte, minInitialBytes)
	packet[0] = longHeader | kind
	binary.BigEndian.PutUint32(packet[1:], version1)
	packet[5] = byte(len(id))
	copy(packet[6:], id)
	return packet
}

// visitor plays clients against a gate, at one instant after the other.
type visitor struct {
	t     *testing.T
	gate  *gate
	now   time.Time
	woken int
}

func newVisitor(t *testing.T, room int) *visitor {
	v := &visitor{t: t, now: time.Unix(1000, 0)}
	v.gate = newGate(room, func() { v.woken++ })
	return v
}

func (v *visitor) sends(packet []byte, want bool) {
	v.t.Helper()
	if got := v.gate.arrive(datagram{data: packet}, v.now); got != want {
		v.t.Errorf("a packet of %.8q passes: %v, want %v", packet[6:14], got, want)
	}
}

func (v *visitor) expectTaken(ids ...string) {
	v.t.Helper()
	var got []string
	for _, d := range v.gate.take(100) {
		got = append(got, string(d.data[6:14]))
	}
	if len(got) != len(ids) {
		v.t.Fatalf("taken: %q, want %q", got, ids)
	}
	for i := range ids {
		if got[i] != ids[i] {
			v.t.Errorf("taken: %q, want %q", got, ids)
		}
	}
}

const first, second, third = "first---", "second--", "third---"

func TestGateLetsInInOrder(t *testing.T) {
	v := newVisitor(t, 1)
	v.sends(opening(initial1, first), true)
	v.sends(opening(initial1, first), true) // the rest of its key share
	v.sends(opening(initial1, second), false)
	v.sends(opening(initial1, third), false)
	v.sends(opening(early1, second), false)
	v.expectTaken()
	v.gate.leave(first, v.now)
	v.expectTaken(second, second)
	v.gate.leave(first, v.now) // again
	v.expectTaken()
	v.gate.end(second, true, v.now)
	v.expectTaken(third)
	if v.woken != 2 {
		t.Errorf("woken %d times, want 2", v.woken)
	}
	v.sends(opening(initial1, first), true) // it is still there
	v.sends(opening(initial1, third), true)
}

func TestGateDropsWhatIsOver(t *testing.T) {
	v := newVisitor(t, 1)
	v.sends(opening(initial1, first), true)
	v.gate.end(first, true, v.now)
	v.sends(opening(initial1, first), false)
	v.sends(opening(early1, first), false)
	v.now = v.now.Add(rememberPast)
	v.sends(opening(initial1, first), false)
	for range 2 {
		v.now = v.now.Add(rememberPast + 1)
		v.sends(opening(early1, second), true) // it passes the time
	}
	if held := len(v.gate.past[0]) + len(v.gate.past[1]); held != 0 {
		t.Errorf("%d connections are still remembered", held)
	}
}

func TestGateLetsAFailureTryAgain(t *testing.T) {
	v := newVisitor(t, 1)
	v.sends(opening(initial1, first), true)
	v.sends(opening(initial1, second), false)
	v.gate.end(first, false, v.now)
	v.expectTaken(second)
	v.sends(opening(initial1, first), false)
	v.gate.leave(second, v.now)
	v.expectTaken(first)
}

func TestGateForgetsWhoGaveUp(t *testing.T) {
	v := newVisitor(t, 1)
	v.sends(opening(initial1, first), true)
	v.sends(opening(initial1, second), false)
	v.sends(opening(initial1, third), false)
	v.now = v.now.Add(firstRetry)
	v.sends(opening(initial1, third), false)
	v.now = v.now.Add(2 * firstRetry)
	v.gate.leave(first, v.now)
	v.expectTaken(third, third)
	v.sends(opening(initial1, second), false) // it had not: it comes anew
	v.gate.leave(third, v.now)
	v.expectTaken(second)
}

func TestGateTakesBackWhatIsNotUsed(t *testing.T) {
	v := newVisitor(t, 1)
	v.sends(opening(initial1, first), true) // and no connection comes of it
	v.now = v.now.Add(longestHandshake)
	v.sends(opening(initial1, second), false)
	v.now = v.now.Add(1)
	v.sends(opening(initial1, third), false)
	v.expectTaken(second)
	if _, known := v.gate.known[first]; known {
		t.Error("who has lost its place is still known")
	}
	v.sends(opening(initial1, first), false) // it comes anew
	v.gate.leave(second, v.now)
	v.expectTaken(third)
	v.gate.end(first, true, v.now) // it had shaken hands, late
	v.gate.leave(third, v.now)
	v.expectTaken()
	v.sends(opening(initial1, first), false)
}

func TestGateIsBounded(t *testing.T) {
	v := newVisitor(t, 1)
	v.sends(opening(initial1, first), true)
	for range 2 * maxKept {
		v.sends(opening(initial1, second), false)
	}
	for i := range 2 * maxWaiting {
		v.sends(opening(initial1, string(binary.BigEndian.AppendUint64(nil, uint64(i)))), false)
	}
	if len(v.gate.waiting) != maxWaiting || len(v.gate.known) != maxWaiting+1 {
		t.Errorf("%d wait, %d are known", len(v.gate.waiting), len(v.gate.known))
	}
	v.gate.leave(first, v.now)
	if taken := len(v.gate.take(100)); taken != maxKept {
		t.Errorf("%d datagrams of one connection were kept, want %d", taken, maxKept)
	}
}

func TestGatePassesWhatBeginsNothing(t *testing.T) {
	v := newVisitor(t, 1)
	v.sends(opening(initial1, first), true)
	short := opening(initial1, second)
	v.sends(short[:minInitialBytes-1], true) // quic-go drops it
	handshake := opening(0x20, second)
	v.sends(handshake, true)
	short[0] &^= longHeader
	v.sends(short, true)
	v.sends(opening(initial1, second), false)
}

func FuzzFirstFlight(f *testing.F) {
	f.Add(opening(initial1, first))
	f.Add(opening(early1, second)[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		if id, kind := firstFlight(data); kind != laterPacket && (len(id) < minInventedBytes || len(id) > maxIDBytes) {
			t.Errorf("an ID of %d bytes", len(id))
		}
	})
}
