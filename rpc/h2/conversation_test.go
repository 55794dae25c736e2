package h2

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"

	"wirelab.dev/rpc/batchio"
)

// conversation connects a client and a server Conn by a wire that delivers a chosen part
// of the bytes, and checks them against a model: the list of bytes sent on each stream.
type conversation struct {
	t              testing.TB
	client, server *recorder
	wire           map[*recorder][]byte // bytes on their way to
	sent           map[*recorder]map[uint32][]byte
	closed         map[uint32]bool // the client has ended its side or the stream was reset
	reset          map[uint32]bool
	live           []*Stream // the client's
	owners         int       // payloads not yet released
}

// A countOwner clears its data when its last reference is released. So bytes that are sent later
// are wrong.
type countOwner struct {
	refs   int
	data   []byte
	owners *int
}

func (o *countOwner) Retain() { o.refs++ }

func (o *countOwner) Release() {
	if o.refs--; o.refs == 0 {
		clear(o.data)
		*o.owners--
	}
}

func converse(t testing.TB) *conversation {
	clientConfig := testConfig
	clientConfig.Client = true
	c := &conversation{
		t: t, client: newRecorder(clientConfig), server: newRecorder(testConfig),
		wire:   map[*recorder][]byte{},
		sent:   map[*recorder]map[uint32][]byte{},
		closed: map[uint32]bool{}, reset: map[uint32]bool{},
	}
	c.sent[c.client], c.sent[c.server] = map[uint32][]byte{}, map[uint32][]byte{}
	c.wire[c.server] = c.client.take()[len(http2.ClientPreface):]
	c.settle()
	return c
}

// move takes one end's output and delivers n bytes, or all of it, to the other.
func (c *conversation) move(from, to *recorder, n int) {
	c.wire[to] = append(c.wire[to], from.take()...)
	n = min(n, len(c.wire[to]))
	// Feed takes whole frames. The remaining bytes wait for more.
	used, err := to.conn.Feed(0, c.wire[to][:n], 1000)
	if err != nil {
		c.t.Fatalf("legal frames were refused: %v", err)
	}
	c.wire[to] = c.wire[to][used:]
	for _, s := range c.server.streams {
		if !s.Open() {
			c.server.conn.Release(s) // else the server refuses new ones in time
		}
	}
	for _, r := range []*recorder{from, to} {
		for _, l := range []*streamList{&r.conn.first, &r.conn.short, &r.conn.active, &r.conn.rest, &r.conn.growing, &r.conn.parked, &r.conn.parkedShort} {
			for s := l.head; s != nil; s = s.links[l.kind].next {
				if !s.Open() {
					c.t.Fatalf("stream %d is gone and still in line; its owner may use it again", s.ID())
				}
			}
		}
	}
}

// settle delivers everything.
func (c *conversation) settle() {
	for range 10_000 {
		c.move(c.client, c.server, 1<<30)
		c.move(c.server, c.client, 1<<30)
		if c.client.conn.Pending()+c.server.conn.Pending()+len(c.wire[c.client])+len(c.wire[c.server]) == 0 {
			return
		}
	}
	c.t.Fatal("the two ends never fall silent")
}

func (c *conversation) send(from *recorder, s *Stream, n int, end bool) {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(len(c.sent[from][s.ID()]) + i)
	}
	if s.Open() && !s.localClosed {
		c.sent[from][s.ID()] = append(c.sent[from][s.ID()], data...)
	}
	c.owners++
	from.conn.SendData(s, batchio.Payload{Data: data, Owner: &countOwner{1, data, &c.owners}}, end)
}

// step executes one byte of the script.
func (c *conversation) step(op, arg byte) {
	pick := func(of []*Stream) *Stream {
		if len(of) == 0 {
			return nil
		}
		return of[int(arg)%len(of)]
	}
	size := int(arg) * int(arg)
	switch op % 10 {
	case 0:
		if c.client.conn.FreeSlots() > 0 {
			s := new(Stream)
			c.client.conn.Open(s)
			c.client.conn.SendHeaders(s, requestRun, nil)
			c.live = append(c.live, s)
		}
	case 1, 2:
		if s := pick(c.live); s != nil && !c.closed[s.ID()] {
			c.closed[s.ID()] = op%10 == 2
			c.send(c.client, s, size, op%10 == 2)
		}
	case 3, 4:
		if s := pick(c.server.streams); s != nil && !c.closed[s.ID()|1<<31] {
			c.server.conn.SendHeaders(s, responseRun, nil)
			c.send(c.server, s, size, false)
			if op%10 == 4 {
				c.closed[s.ID()|1<<31] = true
				c.server.conn.SendTrailers(s, trailerRun, nil)
			}
		}
	case 5:
		if s := pick(c.live); s != nil && arg%4 == 0 {
			c.reset[s.ID()] = true
			c.client.conn.Reset(s, http2.ErrCodeCancel)
		}
	case 6:
		if s := pick(c.server.streams); s != nil && arg%4 == 0 {
			c.reset[s.ID()] = true
			c.server.conn.Reset(s, http2.ErrCodeInternal)
		}
	case 7:
		c.move(c.client, c.server, size)
	case 8:
		c.move(c.server, c.client, size)
	case 9:
		c.server.hold = arg%2 == 0
	}
}

// finish ends all streams and compares with the model.
func (c *conversation) finish() {
	t := c.t
	c.server.hold = false
	for range 3 {
		for _, s := range c.server.streams {
			if !c.reset[s.ID()] { // the others give back with Release
				c.server.conn.Consume(s, 1<<30)
			}
		}
		c.settle()
	}
	for from, to := range map[*recorder]*recorder{c.client: c.server, c.server: c.client} {
		for id, want := range c.sent[from] {
			got := to.data[id]
			if !bytes.HasPrefix(want, got) {
				c.t.Fatalf("stream %d: %d bytes arrived that were not sent", id, len(got))
			}
			cut := c.reset[id] || from == c.client && c.closed[id|1<<31]
			if !cut && len(got) != len(want) {
				c.t.Fatalf("stream %d: %d of %d bytes arrived", id, len(got), len(want))
			}
		}
	}
	for _, r := range []*recorder{c.client, c.server} {
		for id, n := range r.ends {
			if n > 1 && !c.reset[id] {
				c.t.Fatalf("stream %d ended %d times", id, n)
			}
		}
	}
	for _, s := range c.server.streams {
		c.server.conn.Reset(s, http2.ErrCodeCancel)
		c.server.conn.Release(s)
	}
	c.settle()
	if n := c.client.conn.OpenStreams() + c.server.conn.OpenStreams() + c.server.conn.UnreleasedStreams(); n != 0 {
		c.t.Fatalf("%d streams are left", n)
	}
	if c.owners != 0 {
		c.t.Fatalf("%d payloads were not released", c.owners)
	}
	for _, r := range []*recorder{c.client, c.server} {
		if c := r.conn; c.records != 0 || c.queued != 0 || c.granted != 0 || c.free.Load() != int64(c.calls) {
			t.Fatalf("left: %d bytes of records, %d queued, %d granted, %d of %d calls free", c.records, c.queued, c.granted, c.free.Load(), c.calls)
		}
	}
}

// FuzzConversation runs random legal sequences of calls.
func FuzzConversation(f *testing.F) {
	f.Add([]byte{0, 0, 1, 100, 7, 255, 3, 200, 2, 50, 4, 255, 8, 255, 7, 255})
	f.Add([]byte{0, 0, 0, 0, 9, 0, 1, 255, 1, 255, 1, 255, 7, 255, 7, 255, 5, 0, 6, 4, 3, 255, 3, 254})
	f.Fuzz(func(t *testing.T, script []byte) {
		c := converse(t)
		for len(script) >= 2 && len(c.live) < 200 {
			c.step(script[0], script[1])
			script = script[2:]
		}
		c.finish()
	})
}
