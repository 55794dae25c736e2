package quicsocket

import (
	"encoding/binary"
	"testing"
	"time"
)

// firstPacket is a packet that begins a connection.
func firstPacket(kind byte, id string) []byte {
	packet := make([]byte, minInitialBytes)
	packet[0] = longHeader | kind
	binary.BigEndian.PutUint32(packet[1:], version1)
	packet[5] = byte(len(id))
	copy(packet[6:], id)
	return packet
}

const maxHandshakeTime = 5 * time.Second

// fakeClients sends the packets of clients to an admission, at one instant after the other.
type fakeClients struct {
	t         *testing.T
	admission *admission
	now       time.Time
	woken     int
}

func newFakeClients(t *testing.T, limit int) *fakeClients {
	v := &fakeClients{t: t, now: time.Unix(1000, 0)}
	v.admission = newAdmission(limit, maxHandshakeTime, func() { v.woken++ })
	return v
}

func (v *fakeClients) sends(packet []byte, want bool) {
	v.t.Helper()
	if got := v.admission.receive(datagram{data: packet}, v.now); got != want {
		v.t.Errorf("a packet of %.8q passes: %v, want %v", packet[6:14], got, want)
	}
}

func (v *fakeClients) expectAdmitted(ids ...string) {
	v.t.Helper()
	var got []string
	for _, d := range v.admission.takeDatagrams(100) {
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

func TestAdmissionIsInOrder(t *testing.T) {
	v := newFakeClients(t, 1)
	v.sends(firstPacket(initialTypeV1, first), true)
	v.sends(firstPacket(initialTypeV1, first), true) // the rest of its key share
	v.sends(firstPacket(initialTypeV1, second), false)
	v.sends(firstPacket(initialTypeV1, third), false)
	v.sends(firstPacket(earlyTypeV1, second), false)
	v.expectAdmitted()
	v.admission.release(first, v.now)
	v.expectAdmitted(second, second)
	v.admission.release(first, v.now) // again
	v.expectAdmitted()
	v.admission.remove(second, true, v.now)
	v.expectAdmitted(third)
	if v.woken != 2 {
		t.Errorf("woken %d times, want 2", v.woken)
	}
	v.sends(firstPacket(initialTypeV1, first), true) // it is still there
	v.sends(firstPacket(initialTypeV1, third), true)
}

func TestAdmissionDropsPacketsOfEndedConnections(t *testing.T) {
	v := newFakeClients(t, 1)
	v.sends(firstPacket(initialTypeV1, first), true)
	v.admission.remove(first, true, v.now)
	v.sends(firstPacket(initialTypeV1, first), false)
	v.sends(firstPacket(earlyTypeV1, first), false)
	v.now = v.now.Add(endedMemoryTime)
	v.sends(firstPacket(initialTypeV1, first), false)
	for range 2 {
		v.now = v.now.Add(endedMemoryTime + 1)
		v.sends(firstPacket(earlyTypeV1, second), true) // it passes the time
	}
	if held := len(v.admission.ended[0]) + len(v.admission.ended[1]); held != 0 {
		t.Errorf("%d connections are still remembered", held)
	}
}

func TestAdmissionAllowsRetryAfterFailure(t *testing.T) {
	v := newFakeClients(t, 1)
	v.sends(firstPacket(initialTypeV1, first), true)
	v.sends(firstPacket(initialTypeV1, second), false)
	v.admission.remove(first, false, v.now)
	v.expectAdmitted(second)
	v.sends(firstPacket(initialTypeV1, first), false)
	v.admission.release(second, v.now)
	v.expectAdmitted(first)
}

func TestAdmissionForgetsSilentClients(t *testing.T) {
	v := newFakeClients(t, 1)
	v.sends(firstPacket(initialTypeV1, first), true)
	v.sends(firstPacket(initialTypeV1, second), false)
	v.sends(firstPacket(initialTypeV1, third), false)
	v.now = v.now.Add(maxFirstRetry)
	v.sends(firstPacket(initialTypeV1, third), false)
	v.now = v.now.Add(2 * maxFirstRetry)
	v.admission.release(first, v.now)
	v.expectAdmitted(third, third)
	v.sends(firstPacket(initialTypeV1, second), false) // it had not: it comes anew
	v.admission.release(third, v.now)
	v.expectAdmitted(second)
}

func TestAdmissionReclaimsUnusedPlaces(t *testing.T) {
	v := newFakeClients(t, 1)
	v.sends(firstPacket(initialTypeV1, first), true) // and no connection comes of it
	v.now = v.now.Add(maxHandshakeTime)
	v.sends(firstPacket(initialTypeV1, second), false)
	v.now = v.now.Add(1)
	v.sends(firstPacket(initialTypeV1, third), false)
	v.expectAdmitted(second)
	if _, known := v.admission.byID[first]; known {
		t.Error("who has lost its place is still known")
	}
	v.sends(firstPacket(initialTypeV1, first), false) // it comes anew
	v.admission.release(second, v.now)
	v.expectAdmitted(third)
	v.admission.remove(first, true, v.now) // it had shaken hands, late
	v.admission.release(third, v.now)
	v.expectAdmitted()
	v.sends(firstPacket(initialTypeV1, first), false)
}

func TestAdmissionIsBounded(t *testing.T) {
	v := newFakeClients(t, 1)
	v.sends(firstPacket(initialTypeV1, first), true)
	for range 2 * maxBuffered {
		v.sends(firstPacket(initialTypeV1, second), false)
	}
	for i := range 2 * maxWaiting {
		v.sends(firstPacket(initialTypeV1, string(binary.BigEndian.AppendUint64(nil, uint64(i)))), false)
	}
	if len(v.admission.waiting) != maxWaiting || len(v.admission.byID) != maxWaiting+1 {
		t.Errorf("%d wait, %d are known", len(v.admission.waiting), len(v.admission.byID))
	}
	v.admission.release(first, v.now)
	if taken := len(v.admission.takeDatagrams(100)); taken != maxBuffered {
		t.Errorf("%d datagrams of one connection were kept, want %d", taken, maxBuffered)
	}
}

func TestAdmissionPassesOtherPackets(t *testing.T) {
	v := newFakeClients(t, 1)
	v.sends(firstPacket(initialTypeV1, first), true)
	short := firstPacket(initialTypeV1, second)
	v.sends(short[:minInitialBytes-1], true) // quic-go drops it
	handshake := firstPacket(0x20, second)
	v.sends(handshake, true)
	short[0] &^= longHeader
	v.sends(short, true)
	v.sends(firstPacket(initialTypeV1, second), false)
}

func FuzzParseFirstPacket(f *testing.F) {
	f.Add(firstPacket(initialTypeV1, first))
	f.Add(firstPacket(earlyTypeV1, second)[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		if id, kind := parseFirstPacket(data); kind != otherPacket && (len(id) < minClientIDBytes || len(id) > maxIDBytes) {
			t.Errorf("an ID of %d bytes", len(id))
		}
	})
}
