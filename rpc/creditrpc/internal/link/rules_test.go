package link

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// hello is a peer's greeting with the least that it may grant.
func hello() frame.Settings {
	return frame.Settings{Version: frame.Version, Window: credit.MinWindow, PerStream: credit.MinWindow, Calls: 4, MaxMessage: 1 << 20, MaxMeta: 1 << 10}
}

// greeted is an end whose peer has greeted; a server's peer has begun a stream.
func greeted(t *testing.T, client bool) *Link {
	t.Helper()
	e := &end{t: t}
	cfg := Config{Client: client, Window: credit.MinWindow, PerStream: credit.MinWindow, Calls: 4, MaxMessage: 1 << 20, MaxMeta: 1 << 10, Room: 1 << 20}
	if client {
		cfg.Calls = 0
	}
	e.link = New(cfg, e)
	wire := frame.AppendHello(nil, hello())
	if client {
		c := &call{}
		c.stream.Owner = c
		if _, err := e.link.Feed(0, wire, 1); err != nil {
			t.Fatal(err)
		}
		e.link.Begin(&c.stream, "/s/m", 0, nil)
		e.link.Start(&c.stream)
		return e.link
	}
	wire = append(wire, one(frame.Method, 0, 0, "/s/m")...)
	wire = append(wire, one(frame.Request, frame.Nothing, 1, "\x00\x00\x00")...)
	if used, err := e.link.Feed(0, wire, 3); err != nil || used != len(wire) {
		t.Fatalf("%d of %d bytes, %v", used, len(wire), err)
	}
	return e.link
}

func one(kind frame.FrameType, flags frame.Flags, stream uint32, payload string) []byte {
	return append(frame.Head{Length: len(payload), Type: kind, Flags: flags, Stream: stream}.Append(nil), payload...)
}

// TestRulesOfFrames checks that a connection ends at the first fault that docs/creditrpc.md lists
// under Faults, and survives the frames that are allowed.
func TestRulesOfFrames(t *testing.T) {
	const server, client = false, true
	for _, c := range []struct {
		name   string
		at     bool
		frames [][]byte
		fault  bool
	}{
		{"a message", server, [][]byte{one(frame.Data, 0, 1, "x")}, false},
		{"its length before a whole message", server, [][]byte{one(frame.Data, frame.Long, 1, "\x02ab")}, false},
		{"another length before it", server, [][]byte{one(frame.Data, frame.Long, 1, "\x03ab")}, true},
		{"parts", server, [][]byte{one(frame.Data, frame.Long|frame.More, 1, "\x03a"), one(frame.Data, frame.More, 1, ""), one(frame.Data, frame.End, 1, "bc")}, false},
		{"too few bytes in parts", server, [][]byte{one(frame.Data, frame.Long|frame.More, 1, "\x03a"), one(frame.Data, 0, 1, "b")}, true},
		{"too many bytes in parts", server, [][]byte{one(frame.Data, frame.Long|frame.More, 1, "\x03a"), one(frame.Data, frame.More, 1, "bcd")}, true},
		{"parts without a length", server, [][]byte{one(frame.Data, frame.More, 1, "a")}, true},
		{"a length within parts", server, [][]byte{one(frame.Data, frame.Long|frame.More, 1, "\x03a"), one(frame.Data, frame.Long, 1, "\x02bc")}, true},
		{"the end within a message", server, [][]byte{one(frame.Data, frame.Long|frame.More|frame.End, 1, "\x03a")}, true},
		{"no message that goes on", server, [][]byte{one(frame.Data, frame.Nothing|frame.More, 1, "")}, true},
		{"no message with a length", server, [][]byte{one(frame.Data, frame.Nothing|frame.Long, 1, "\x00")}, true},
		{"no message with bytes", server, [][]byte{one(frame.Data, frame.Nothing, 1, "a")}, true},
		{"no message within one", server, [][]byte{one(frame.Data, frame.Long|frame.More, 1, "\x03a"), one(frame.Data, frame.Nothing|frame.End, 1, "")}, true},
		{"metadata from a client", server, [][]byte{one(frame.Header, 0, 1, "")}, true},
		{"a status from a client", server, [][]byte{one(frame.Status, 0, 1, "\x00\x00\x00")}, true},
		{"goodbye from a client", server, [][]byte{one(frame.Goodbye, 0, 0, "\x00")}, true},
		{"a request from a server", client, [][]byte{one(frame.Request, 0, 2, "\x00\x00\x00")}, true},
		{"a name from a server", client, [][]byte{one(frame.Method, 0, 0, "/s/m")}, true},
		{"metadata twice from a server", client, [][]byte{one(frame.Header, 0, 1, ""), one(frame.Header, 0, 1, "")}, false},
		{"a gap in the numbers of requests", server, [][]byte{one(frame.Request, frame.End, 3, "\x00\x00\x00")}, true},
		{"a number again", server, [][]byte{one(frame.Cancel, 0, 1, ""), one(frame.Request, frame.End, 1, "\x00\x00\x00")}, true},
		{"data after the end", server, [][]byte{one(frame.Data, frame.End, 1, "x"), one(frame.Data, 0, 1, "x")}, false},
		{"data of no call", server, [][]byte{one(frame.Data, 0, 2, "x")}, true},
		{"a grant on a stream that was not begun", server, [][]byte{one(frame.Credit, 0, 2, "\x01\x00")}, true},
		{"a grant with more fields", server, [][]byte{one(frame.Credit, 0, 0, "\x01\x00\x07")}, false},
		{"a grant without a field", server, [][]byte{one(frame.Credit, 0, 0, "\x01")}, true},
		{"a flag of another type", server, [][]byte{one(frame.Cancel, 0xf0, 1, "x")}, false},
		{"a short ping", server, [][]byte{one(frame.Ping, 0, 0, "1234567")}, true},
		{"a second greeting", server, [][]byte{frame.AppendHello(nil, hello())}, true},
	} {
		l := greeted(t, c.at)
		var err error
		for i, wire := range c.frames {
			if err != nil {
				t.Errorf("%s: a fault before the last frame: %v", c.name, err)
			}
			var used int
			if used, err = l.Feed(0, wire, 10); err == nil && used != len(wire) {
				t.Errorf("%s: frame %d is not read", c.name, i)
			}
		}
		if errors.Is(err, ErrProtocol) != c.fault {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestUnreadAnswers has a client that reads nothing make calls that need no credit of its own to be
// answered. The server stops reading, and goes on when its answers have been taken.
func TestUnreadAnswers(t *testing.T) {
	l := greeted(t, false)
	if _, err := l.Feed(0, one(frame.Method, 0, 0, "unknown"), 1); err != nil {
		t.Fatal(err)
	}
	for i := uint32(2); !l.Throttled(); i++ {
		if _, err := l.Feed(0, one(frame.Request, frame.End, i, "\x01\x00\x00"), 1); err != nil || l.Pending() > 2*maxAnswers {
			t.Fatalf("after %d calls %d bytes wait, %v", i, l.Pending(), err)
		}
	}
	l.TakeOutput().Recycle()
	if l.Throttled() {
		t.Error("it does not go on")
	}
}

// TestClaimsCostTheirBytes begins calls whose messages claim to be long, and sends little of
// each: once a byte, which has room, and once as much as the credit allows, when room is short.
func TestClaimsCostTheirBytes(t *testing.T) {
	for _, sent := range []int{1, 50_000} {
		l := greeted(t, false)
		calls, cost, came := 0, 0, 0
		for i := range uint32(600) {
			payload := append(binary.AppendUvarint([]byte{0, 0, 0}, uint64(l.cfg.MaxMessage)), make([]byte, sent)...)
			if _, err := l.Feed(0, one(frame.Request, frame.Long|frame.More, i+2, string(payload)), 1); err != nil {
				break // there is no more credit
			}
			calls++
			came += sent
			cost += cap(l.streams[i+2].incoming.Data)
		}
		if most := max(came*maxGrowth, calls*512); calls == 0 || cost > most {
			t.Errorf("messages that sent %d bytes in all have %d bytes of memory, want at most %d", came, cost, most)
		}
	}
}

// TestShortMessagesCanBeTooLong has a receiver that takes very little.
func TestShortMessagesCanBeTooLong(t *testing.T) {
	p := newPair(t, func(_, server *Config) { server.MaxMessage = 10 })
	p.settle()
	p.begin("/s/m", content(10, 1), true)
	p.begin("/s/m", content(11, 2), true)
	p.settle()
	if fits, long := p.server.calls[0], p.server.calls[1]; fits.tooLong != 0 || len(fits.got) != 1 || long.tooLong != 11 || len(long.got) != 0 {
		t.Errorf("%+v\n%+v", fits, long)
	}
}

// TestMetadataFitsIntoATurn has a peer that takes more metadata than one frame can hold.
func TestMetadataFitsIntoATurn(t *testing.T) {
	l := New(Config{Client: true, Window: credit.MinWindow, PerStream: credit.MinWindow}, &end{t: t})
	boundless := hello()
	boundless.MaxMeta = 1 << 30
	if _, err := l.Feed(0, frame.AppendHello(nil, boundless), 1); err != nil || l.Peer().MaxMeta != MaxMeta {
		t.Errorf("%d bytes of metadata may be sent, %v", l.Peer().MaxMeta, err)
	}
}

// TestNumbersRunOut has a client make the last call that it begins on a connection.
func TestNumbersRunOut(t *testing.T) {
	p := newPair(t, nil)
	p.settle()
	p.client.link.lastID, p.server.link.lastID = maxCalls-2, maxCalls-2
	p.begin("/s/m", nil, true)
	p.settle()
	if p.client.link.Draining() {
		t.Error("it drains too early")
	}
	p.begin("/s/m", nil, true)
	p.settle()
	if !p.client.link.Draining() || p.server.link.Draining() || len(p.server.calls) != 2 {
		t.Errorf("after the last call, %d calls arrived, and the client drains: %v", len(p.server.calls), p.client.link.Draining())
	}
}

// TestAServersLossTellsNothing gives up a call at a server: its client must not think that it
// was not begun, and make it again.
func TestAServersLossTellsNothing(t *testing.T) {
	p := newPair(t, nil)
	p.settle()
	c := p.begin("/s/m", nil, true)
	p.settle()
	p.server.link.Cancel(&p.server.calls[0].stream)
	p.settle()
	if c.refused {
		t.Error("the client hears that its call was not begun")
	}
}

// TestNamesAreBounded names as many methods as a peer may, and one more.
func TestNamesAreBounded(t *testing.T) {
	l := greeted(t, false)
	long := string(make([]byte, maxMethodName))
	for i := len(l.names); i < maxMethods; i++ {
		if _, err := l.Feed(0, one(frame.Method, 0, 0, long), 1); err != nil {
			t.Fatalf("name %d: %v", i, err)
		}
	}
	if _, err := l.Feed(0, one(frame.Method, 0, 0, long), 1); !errors.Is(err, ErrProtocol) {
		t.Errorf("a name too many: %v", err)
	}
	if _, err := greeted(t, false).Feed(0, one(frame.Method, 0, 0, long+"x"), 1); !errors.Is(err, ErrProtocol) {
		t.Errorf("a name too long: %v", err)
	}
}

// FuzzFeed feeds frames of a hostile peer to both ends. Neither panics, keeps a buffer afterwards,
// or fails otherwise than by the rules.
func FuzzFeed(f *testing.F) {
	f.Add(one(frame.Request, frame.Long|frame.More, 2, "\x00\x00\x00\x80\x80\x40abc"))
	f.Add(slices.Concat(one(frame.Data, frame.Long|frame.More, 1, "\x80\x80\x40abc"), one(frame.Data, frame.More, 1, "def"), one(frame.Cancel, 0, 1, "")))
	f.Add(slices.Concat(one(frame.Header, 0, 1, "\x01a\x01b"), one(frame.Data, 0, 1, "x"), one(frame.Status, 0, 1, "\x02\x01t\x00\x01a\x01b")))
	f.Add(slices.Concat(one(frame.Credit, 0, 0, "\xff\xff\xff\xff\x0f\x01"), one(frame.Credit, 0, 1, "\x01\x00"), one(frame.Ping, 0, 0, "12345678")))
	f.Add(slices.Concat(one(frame.Goodbye, 0, 0, "\x00"), one(frame.Data, frame.Nothing|frame.End, 1, ""), one(frame.Method, 0, 0, "/s/n")))
	f.Fuzz(func(t *testing.T, in []byte) {
		var buffers atomic.Int64
		batchio.CountBuffers(&buffers)
		defer batchio.CountBuffers(nil)
		for _, client := range []bool{false, true} {
			l := greeted(t, client)
			if _, err := l.Feed(0, in, 1000); err != nil && !errors.Is(err, ErrProtocol) {
				t.Errorf("%v, want an error of the protocol", err)
			}
			for _, s := range l.All() {
				for _, m := range s.Owner.(*call).got {
					m.Release()
				}
				l.Cancel(s)
			}
			l.Close()
		}
		if n := buffers.Load(); n != 0 {
			t.Errorf("%d buffers are lost", n)
		}
	})
}
