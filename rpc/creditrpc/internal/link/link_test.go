package link

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
	"wirelab.dev/rpc/creditrpc/internal/link/progress"
)

// An end is one end of a connection in a test. It records its events, and acts on its calls
// as the test says.
type end struct {
	t        testing.TB
	name     string
	link     *Link
	calls    []*call // in the order in which they began
	goodbyes int
}

// A call is one end of a call.
type call struct {
	stream   Stream
	method   string
	got      []Message // unread, copied
	received []string  // what was read, as sizes and first bytes
	ended    int       // times
	status   *frame.Ending
	refused  bool
	tooLong  int
	meta     string
}

func (e *end) of(s *Stream) *call { return s.Owner.(*call) }

// waiting returns the number of calls that wait to begin.
func (e *end) waiting() int { return len(e.link.All()) - e.link.OpenStreams() }

func (e *end) OnRequest(id uint32, method string, begin frame.RequestStart) *Stream {
	if method == "unknown" {
		e.link.Refuse(id, frame.Ending{Code: 12, Message: []byte("no such method")})
		return nil
	}
	c := &call{method: method, meta: string(begin.Meta)}
	c.stream.Owner, c.stream.HoldsCredit = c, id%2 == 0
	e.calls = append(e.calls, c)
	return &c.stream
}

func (e *end) OnMessage(s *Stream, m Message) {
	c := e.of(s)
	if m.Buffer == nil {
		m.Data = bytes.Clone(m.Data)
	}
	c.got = append(c.got, m)
}

func (e *end) OnTooLong(s *Stream, n int)      { e.of(s).tooLong = n }
func (e *end) OnEnd(s *Stream)                 { e.of(s).ended++ }
func (e *end) OnHeader(s *Stream, meta []byte) { e.of(s).meta += "header " + string(meta) }
func (e *end) OnStatus(s *Stream, ending *frame.Ending) {
	c := e.of(s)
	c.ended++
	c.status = &frame.Ending{Code: ending.Code, Message: bytes.Clone(ending.Message), Meta: bytes.Clone(ending.Meta)}
}
func (e *end) OnCancel(s *Stream) { e.of(s).refused = true }
func (e *end) OnSent(*Stream)     {}
func (e *end) OnGoodbye()         { e.goodbyes++ }

// read reads the first unread message of a call, if there is one.
func (e *end) read(c *call) bool {
	if len(c.got) == 0 {
		return false
	}
	m := c.got[0]
	c.got = c.got[1:]
	c.received = append(c.received, digest(m.Data))
	e.link.MessageRead(&c.stream, m)
	if m.Buffer != nil {
		m.Buffer.Release()
	}
	return true
}

// digest tells messages apart that differ in length or content.
func digest(data []byte) string {
	sum := uint32(2166136261)
	for _, b := range data {
		sum = (sum ^ uint32(b)) * 16777619
	}
	return fmt.Sprintf("%d:%x", len(data), sum)
}

// content is a message of a length that no other number has.
func content(length, number int) []byte {
	data := make([]byte, length)
	for i := range data {
		data[i] = byte(i*7 + number + i>>8)
	}
	return data
}

// pair is both ends, and the bytes between them.
type pair struct {
	t              testing.TB
	client, server *end
	up, down       []byte
}

func newPair(t testing.TB, change func(client, server *Config)) *pair {
	t.Helper()
	usual := Config{Window: 4 * credit.MinWindow, PerStream: credit.MinWindow, Calls: 4, MaxMessage: 1 << 20, MaxMeta: 1 << 10, Room: 2 << 20, MinReference: 8 << 10}
	client, server := usual, usual
	client.Client, client.Calls = true, 0
	if change != nil {
		change(&client, &server)
	}
	p := &pair{t: t, client: &end{t: t, name: "client"}, server: &end{t: t, name: "server"}}
	p.client.link, p.server.link = New(client, p.client), New(server, p.server)
	return p
}

// write takes an end's output onto the wire.
func write(e *end, wire *[]byte) bool {
	if e.link.Pending() == 0 {
		return false
	}
	out := e.link.TakeOutput()
	for _, segment := range out.Segments() {
		*wire = append(*wire, segment...)
	}
	out.Recycle()
	return true
}

// feed gives an end at most this many bytes from the wire.
func feed(e *end, wire *[]byte, most int) bool {
	if len(*wire) == 0 {
		return false
	}
	used, err := e.link.Feed(0, (*wire)[:min(most, len(*wire))], 1<<30)
	if err != nil {
		e.t.Fatalf("%s: %v", e.name, err)
	}
	*wire = (*wire)[used:]
	return used > 0
}

// settle lets all that is written arrive.
func (p *pair) settle() {
	for moved := true; moved; {
		moved = write(p.client, &p.up)
		moved = write(p.server, &p.down) || moved
		moved = feed(p.server, &p.up, 1<<30) || moved
		moved = feed(p.client, &p.down, 1<<30) || moved
	}
}

// begin begins a call with a message.
func (p *pair) begin(method string, data []byte, end bool) *call {
	c := &call{method: method}
	c.stream.Owner = c
	p.client.link.Begin(&c.stream, method, 0, []byte("meta of "+method))
	p.client.calls = append(p.client.calls, c)
	p.client.link.Send(&c.stream, batchio.Payload{Data: data}, end)
	return c
}

func TestUnaryCall(t *testing.T) {
	p := newPair(t, nil)
	p.settle() // both have greeted
	c := p.begin("/s/m", content(100, 1), true)
	p.settle()
	if len(p.server.calls) != 1 {
		t.Fatalf("the server has %d calls", len(p.server.calls))
	}
	s := p.server.calls[0]
	if s.method != "/s/m" || s.meta != "meta of /s/m" || s.ended != 1 || !p.server.read(s) || s.received[0] != digest(content(100, 1)) {
		t.Fatalf("%+v", s)
	}
	p.server.link.SendHeader(&s.stream, []byte("h"))
	p.server.link.Send(&s.stream, batchio.Payload{Data: content(50, 2)}, true)
	p.server.link.Release(&s.stream)
	p.settle()
	if c.ended != 1 || c.meta != "header h" || !p.client.read(c) || c.received[0] != digest(content(50, 2)) || !c.stream.Over() || !s.stream.Over() {
		t.Errorf("%+v", c)
	}
	if n := p.client.link.OpenStreams() + p.server.link.OpenStreams(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

func TestStatusAndRefusal(t *testing.T) {
	p := newPair(t, nil)
	p.settle()
	failing, unknown := p.begin("/s/m", nil, true), p.begin("unknown", nil, true)
	p.settle()
	s := p.server.calls[0]
	p.server.link.SendStatus(&s.stream, frame.Ending{Code: 5, Message: []byte("not found"), Meta: []byte("trailer")})
	p.server.link.Release(&s.stream)
	p.settle()
	if failing.status == nil || failing.status.Code != 5 || string(failing.status.Message) != "not found" || string(failing.status.Meta) != "trailer" || failing.ended != 1 {
		t.Errorf("%+v", failing.status)
	}
	if unknown.status == nil || unknown.status.Code != 12 || unknown.ended != 1 {
		t.Errorf("%+v", unknown.status)
	}
}

// A client gets four calls under way at once, in the order of asking; the fifth waits until
// the server has done with one.
func TestCallsWaitForCredit(t *testing.T) {
	p := newPair(t, nil)
	p.settle()
	for i := range 6 {
		p.begin(fmt.Sprintf("/s/%d", i), content(10, i), true)
	}
	p.settle()
	if len(p.server.calls) != 4 || p.client.waiting() != 2 {
		t.Fatalf("%d calls began, %d wait", len(p.server.calls), p.client.waiting())
	}
	for _, s := range p.server.calls[:2] { // credit is returned when it is half of all
		p.server.link.End(&s.stream)
		p.server.link.Release(&s.stream)
	}
	p.settle()
	if len(p.server.calls) != 6 || p.server.calls[4].method != "/s/4" {
		t.Errorf("%d calls began", len(p.server.calls))
	}
}

// A call that is given up before the server had credit for it is never seen there, and its
// method still has its number.
func TestGivenUpBeforeItBegan(t *testing.T) {
	p := newPair(t, func(_, server *Config) { server.Calls = 1 })
	p.settle()
	p.begin("/s/a", nil, true)
	given := p.begin("/s/b", nil, true)
	p.settle()
	if begun := p.client.link.Cancel(&given.stream); begun {
		t.Error("it was begun")
	}
	last := p.begin("/s/b", nil, true)
	p.server.link.End(&p.server.calls[0].stream)
	p.server.link.Release(&p.server.calls[0].stream)
	p.settle()
	if len(p.server.calls) != 2 || p.server.calls[1].method != "/s/b" || last.stream.id != 2 {
		t.Errorf("%d calls, the last has the number %d", len(p.server.calls), last.stream.id)
	}
}

// Goodbye gives back what the server has not begun.
func TestGoodbye(t *testing.T) {
	p := newPair(t, nil)
	p.settle()
	p.begin("/s/a", nil, true)
	p.settle()
	p.server.link.Goodbye()
	late := p.begin("/s/b", nil, true) // before it hears of it
	p.settle()
	if !late.refused || p.client.goodbyes != 1 || !p.client.link.Draining() {
		t.Errorf("refused %v, %d goodbyes", late.refused, p.client.goodbyes)
	}
	p.server.link.End(&p.server.calls[0].stream)
	p.settle()
	if p.client.calls[0].ended != 1 || p.client.calls[0].refused {
		t.Errorf("%+v", p.client.calls[0])
	}
}

func TestMessagesThatAreTooLong(t *testing.T) {
	p := newPair(t, func(_, server *Config) { server.MaxMessage = 100_000 })
	p.settle()
	p.begin("/s/a", content(100_001, 1), true)
	p.settle()
	s := p.server.calls[0]
	if s.tooLong != 100_001 || len(s.got) != 0 {
		t.Fatalf("%d bytes too long, %d messages", s.tooLong, len(s.got))
	}
	p.server.link.SendStatus(&s.stream, frame.Ending{Code: 8})
	p.server.link.Release(&s.stream)
	p.settle()
	if c := p.client.calls[0]; c.status == nil || c.status.Code != 8 {
		t.Errorf("%+v", c)
	}
}

func TestPing(t *testing.T) {
	p := newPair(t, nil)
	p.settle()
	p.client.link.Ping()
	write(p.client, &p.up)
	feed(p.server, &p.up, 1<<30)
	write(p.server, &p.down)
	if want := (frame.Head{Type: frame.Ping, Flags: frame.Answer}).AppendFrame(nil, make([]byte, 8)); !bytes.Equal(p.down, want) {
		t.Errorf("the answer is %x, want %x", p.down, want)
	}
	p.settle()
	var pings []byte
	for range progress.MaxUseless / 2 {
		pings = append(frame.Head{Length: 8, Type: frame.Ping}.Append(pings), make([]byte, 8)...)
	}
	if _, err := p.server.link.Feed(0, pings, progress.MaxUseless); err != nil || !p.server.link.Throttled() {
		t.Errorf("a peer that reads no answers is read: %v", err)
	}
}

// FuzzConversation lets both ends do what they may in any order, with any cuts of the bytes
// between them. Every message arrives whole and in order, every call ends once at its
// client, no frame is one without progress, and in the end all credit and memory is back.
func FuzzConversation(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(400))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		var buffers atomic.Int64
		batchio.CountBuffers(&buffers)
		defer batchio.CountBuffers(nil)
		c := &conversation{random: rand.New(rand.NewPCG(seed, 3)), sent: map[*call][]string{}}
		c.pair = newPair(t, func(client, server *Config) {
			for _, cfg := range []*Config{client, server} {
				cfg.Window = credit.MinWindow + c.random.Int64N(300_000)
				cfg.PerStream = credit.MinWindow + c.random.Int64N(200)
				cfg.Room = int64(cfg.MaxMessage) + c.random.Int64N(1<<20)
			}
			server.Calls = 1 + c.random.Int64N(5)
		})
		c.allowNothing()
		for range min(steps, 2000) {
			c.step()
		}
		c.finish(&buffers)
	})
}

type conversation struct {
	*pair
	random   *rand.Rand
	number   int
	sent     map[*call][]string // by either end
	released map[*call]bool
}

func (c *conversation) payload() []byte {
	c.number++
	sizes := []int{0, 1, 100, 9000, credit.Turn - 3, credit.Turn, 70_000, 66_000, 131_000, 300_000, 900_000}
	return content(sizes[c.random.IntN(len(sizes))], c.number)
}

func (c *conversation) send(e *end, one *call, end bool) {
	if one.stream.Open() && !one.stream.endQueued() {
		data := c.payload()
		c.sent[one] = append(c.sent[one], digest(data))
		b := batchio.NewBuffer(len(data))
		copy(b.Data, data)
		e.link.Send(&one.stream, batchio.Payload{Data: b.Data, Owner: b}, end)
	}
}

func (c *conversation) step() {
	p := c.pair
	one := func(e *end) *call {
		if len(e.calls) == 0 {
			return nil
		}
		return e.calls[c.random.IntN(len(e.calls))]
	}
	switch c.random.IntN(12) {
	case 0:
		if len(p.client.calls) < 30 && p.client.link.peer.PerStream > 0 {
			one := &call{method: fmt.Sprint("/s/", c.random.IntN(3))}
			one.stream.Owner = one
			p.client.link.Begin(&one.stream, one.method, 0, nil)
			p.client.calls = append(p.client.calls, one)
			c.send(p.client, one, c.random.IntN(2) == 0)
		}
	case 1:
		if of := one(p.client); of != nil {
			c.send(p.client, of, c.random.IntN(2) == 0)
		}
	case 2:
		if of := one(p.client); of != nil {
			p.client.link.End(&of.stream)
		}
	case 3, 4:
		if of := one(p.server); of != nil && !of.stream.Over() {
			c.send(p.server, of, c.random.IntN(4) == 0)
		}
	case 5:
		if of := one(p.server); of != nil {
			p.server.link.SendStatus(&of.stream, frame.Ending{Code: 1})
		}
	case 6:
		if of := one(p.server); of != nil {
			p.server.link.ReturnHeld(&of.stream)
			p.server.read(of)
		}
	case 7:
		if of := one(p.client); of != nil {
			p.client.read(of)
		}
	case 8:
		write(p.client, &p.up)
	case 9:
		write(p.server, &p.down)
	case 10:
		feed(p.server, &p.up, 1+c.random.IntN(100_000))
	case 11:
		feed(p.client, &p.down, 1+c.random.IntN(100_000))
		if of := one(p.client); of != nil && c.random.IntN(10) == 0 {
			p.client.link.Cancel(&of.stream)
			of.refused = true
		}
	}
}

// finish ends all calls and reads all messages, and checks that nothing else is left.
func (c *conversation) finish(buffers *atomic.Int64) {
	t, p := c.t, c.pair
	c.released = map[*call]bool{}
	for idle := 0; idle < 3; idle++ {
		for _, one := range p.client.calls {
			p.client.link.End(&one.stream)
			for p.client.read(one) {
				idle = 0
			}
		}
		for _, one := range p.server.calls {
			p.server.link.ReturnHeld(&one.stream)
			for p.server.read(one) {
				idle = 0
			}
			if one.ended > 0 || one.stream.Over() {
				p.server.link.SendStatus(&one.stream, frame.Ending{})
			}
			if one.stream.Over() && !c.released[one] {
				c.released[one] = true
				p.server.link.Release(&one.stream)
				idle = 0
			}
		}
		p.settle()
	}
	for i, one := range p.client.calls {
		if !one.refused && one.ended != 1 {
			for _, e := range []*end{p.client, p.server} {
				t.Logf("%s: %+v window %+v room %+v waitingForRoom %d pending %d limit %d", e.name, *e.link.sender, e.link.window, e.link.room, len(e.link.waitingForRoom), e.link.Pending(), e.link.limit)
				for i, o := range e.calls {
					t.Logf("  %d: %d state %d peerDone %v queue %d send %+v window %+v have %d of %d reserved %d waits %v got %d ended %d", i, o.stream.id, o.stream.state, o.stream.peerDone, len(o.stream.queue), o.stream.send, o.stream.window, o.stream.have, o.stream.whole, o.stream.reserved, o.stream.waits, len(o.got), o.ended)
				}
			}
			t.Fatalf("call %d (%d) ended %d times; over: %v, %d waiting to begin", i, one.stream.id, one.ended, one.stream.Over(), p.client.waiting())
		}
	}
	for _, one := range p.server.calls {
		var peer *call
		for _, other := range p.client.calls {
			if other.stream.id == one.stream.id {
				peer = other
			}
		}
		c.inOrder("the server", one.received, c.sent[peer], peer.refused || peer.stream.Over())
		c.inOrder("the client", peer.received, c.sent[one], peer.refused)
	}
	if n := p.client.link.OpenStreams() + p.server.link.OpenStreams(); n != 0 {
		t.Fatalf("%d streams are open", n)
	}
	for _, e := range []*end{p.client, p.server} {
		l := e.link
		if held := l.window.InUse(); held != 0 {
			t.Errorf("%s: %d bytes of the connection's credit are lost", e.name, held)
		}
		if held := l.calls.InUse(); held != 0 {
			t.Errorf("%s: the credit of %d calls is lost", e.name, held)
		}
		if l.room != l.cfg.Room || len(l.waitingForRoom) > 0 {
			t.Errorf("%s: room for %d of %d is left, %d wait for it", e.name, l.room, l.cfg.Room, len(l.waitingForRoom))
		}
		l.Close()
	}
	if n := buffers.Load(); n != 0 {
		t.Errorf("%d buffers are lost", n)
	}
}

// inOrder checks that the received messages equal the sent ones, or the first of them where
// the call was cut.
func (c *conversation) inOrder(who string, received, sent []string, cut bool) {
	c.t.Helper()
	if len(received) > len(sent) || !cut && len(received) < len(sent) {
		c.t.Fatalf("%s received %d messages of %d", who, len(received), len(sent))
	}
	for i := range received {
		if received[i] != sent[i] {
			c.t.Fatalf("%s received %s in place of %s", who, received[i], sent[i])
		}
	}
}
