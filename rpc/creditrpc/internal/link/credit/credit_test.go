package credit

import (
	"math/rand/v2"
	"testing"
)

// sent runs turns until nobody may send, and returns whose they were.
func sent(c *Sender, names map[*Stream]string) (order string) {
	for {
		s, _ := c.Next()
		if s == nil {
			return order
		}
		order += names[s]
	}
}

// begin makes a stream that begins a call with a message.
func begin(c *Sender, bytes int) *Stream {
	s := new(Stream)
	s.Begin(1 << 20)
	c.Send(s, bytes, 0)
	return s
}

func TestShortMessagesPassLongOnes(t *testing.T) {
	c := NewSender(1<<30, 100)
	names := map[*Stream]string{}
	for _, call := range []struct {
		name  string
		bytes int
	}{{"L", 3 * Turn}, {"a", 64}, {"M", 2*Turn + 1}, {"b", 0}} {
		names[begin(c, call.bytes)] = call.name
	}
	if got, want := sent(c, names), "LaMbLMLM"; got != want {
		t.Errorf("turns %s, want %s", got, want)
	}
}

// Who needs more than there is waits, and nobody who needs less goes first.
func TestNobodyIsOvertaken(t *testing.T) {
	c := NewSender(Cost(100), 100)
	names := map[*Stream]string{begin(c, 1000): "a", begin(c, 10): "b"}
	if got := sent(c, names); got != "" {
		t.Fatalf("%s sent without credit for a", got)
	}
	c.Grant(Cost(1000)-Cost(100)-1, 0) // one less than it takes, overhead and all
	if got := sent(c, names); got != "" {
		t.Fatalf("%s sent without the last byte of credit for a", got)
	}
	c.Grant(1+Cost(10), 0)
	if got := sent(c, names); got != "ab" {
		t.Errorf("turns %q, want ab", got)
	}
}

func TestCallsBeginInTheOrderOfAsking(t *testing.T) {
	c := NewSender(1<<30, 1)
	first := begin(c, 1)
	names := map[*Stream]string{first: "a", begin(c, 1): "b", begin(c, 1): "c"}
	if got := sent(c, names); got != "a" || len(c.All()) != 2 {
		t.Fatalf("began %q, %d wait", got, len(c.All()))
	}
	c.Send(first, 5, 0) // a call that has begun needs no credit of requests
	if got := sent(c, names); got != "a" {
		t.Fatalf("then %q", got)
	}
	c.Grant(0, 5)
	if got := sent(c, names); got != "bc" {
		t.Errorf("then %q", got)
	}
}

// A stream whose reader does not read stops only itself.
func TestAStreamWithoutCreditWaitsApart(t *testing.T) {
	c := NewSender(1<<30, 10)
	slow := new(Stream)
	slow.Begin(Cost(100))
	c.Send(slow, 150, 0)
	names := map[*Stream]string{slow: "s", begin(c, 1): "a"}
	if got := sent(c, names); got != "sa" || !slow.hasMessage {
		t.Fatalf("turns %q", got)
	}
	c.GrantStream(slow, Overhead) // bears no byte
	if got := sent(c, names); got != "" {
		t.Fatalf("turns %q", got)
	}
	c.GrantStream(slow, 50)
	if got := sent(c, names); got != "s" || slow.hasMessage {
		t.Errorf("turns %q, %d bytes left", got, slow.left)
	}
	c.Send(slow, 0, 0)
	if got := sent(c, names); got != "" {
		t.Fatalf("a message without bytes went out without credit")
	}
	if begun := c.Cancel(slow); !begun || slow.hasMessage {
		t.Error("it was begun, and has nothing to send")
	}
	c.GrantStream(slow, 1000)
	if got := sent(c, names); got != "" {
		t.Errorf("a cancelled stream sent %q", got)
	}
}

func TestACallIsCancelledBeforeItBegins(t *testing.T) {
	c := NewSender(1<<30, 0)
	s := begin(c, 10)
	if c.Cancel(s) {
		t.Error("it was never begun")
	}
	c.Grant(0, 1)
	if got, _ := c.Next(); got != nil || c.requests != 1 {
		t.Errorf("%d requests left", c.requests)
	}
}

func TestWindow(t *testing.T) {
	w := NewWindow(1000)
	if !w.Receive(600) || w.Take(124) != 0 || w.Take(476) != 600 || w.left != 1000 {
		t.Fatalf("%+v", w)
	}
	if w.Receive(1001) {
		t.Error("more was received than was granted")
	}
}

// A world holds both ends of a connection, and the frames between them.
type world struct {
	t        testing.TB
	random   *rand.Rand
	sender   *Sender
	bytes    Window
	requests Window
	calls    []*call
	wire     []frame // to the receiver
	back     []func()
	arrival  int // of the calls' first frames, in order
}

type call struct {
	Stream
	window        Window
	asked         int // in this order
	unread        []int64
	toSend        int // messages
	opened, ended bool
	open          bool // at the receiver
	cancelled     bool
}

type frame struct {
	of    *call
	bytes int
	end   bool // the sender sends no more
}

// FuzzCredit checks in any order of events that no credit is negative or lost, that every
// waiting call gets a turn once the receiver reads, that calls begin in the order of asking,
// and that each ends once.
func FuzzCredit(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint16(300))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		random := rand.New(rand.NewPCG(seed, 1))
		size := MinWindow + random.Int64N(8*Turn)
		most := 1 + random.Int64N(5)
		w := &world{t: t, random: random, sender: NewSender(size, most), bytes: NewWindow(size), requests: NewWindow(most)}
		for range min(steps, 2000) {
			w.step()
			w.check(size, most)
		}
		w.finish(size, most)
	})
}

func (w *world) step() {
	switch w.random.IntN(8) {
	case 0:
		w.ask()
	case 1, 2, 3:
		w.turn()
	case 4:
		w.arrive()
	case 5:
		w.read()
	case 6:
		w.granted()
	case 7:
		if len(w.calls) > 0 && w.random.IntN(4) == 0 {
			w.cancel(w.calls[w.random.IntN(len(w.calls))])
		}
	}
}

func (w *world) ask() {
	window := MinWindow + w.random.Int64N(2*Turn)
	c := &call{window: NewWindow(window), asked: len(w.calls), toSend: w.random.IntN(3)}
	c.Begin(window)
	w.calls = append(w.calls, c)
	w.give(c)
}

func (w *world) give(c *call) {
	size := w.size()
	w.sender.Send(&c.Stream, size, min(size, w.random.IntN(3)*5))
}

// size is a message's: often none, small, or longer than a turn.
func (w *world) size() int {
	return []int{0, 1, 64, Turn, Turn + 1, 3 * Turn}[w.random.IntN(6)]
}

func (w *world) turn() {
	s, n := w.sender.Next()
	if s == nil {
		return
	}
	var c *call
	for _, one := range w.calls {
		if &one.Stream == s {
			c = one
		}
	}
	if c.cancelled || n > Turn {
		w.t.Fatalf("call %d sends %d bytes; it was cancelled: %v", c.asked, n, c.cancelled)
	}
	end := false
	if !s.hasMessage {
		if end = c.toSend == 0; !end {
			c.toSend--
			w.give(c)
		}
	}
	if !c.opened && c.asked != w.arrival {
		for _, before := range w.calls[:c.asked] {
			if !before.opened && !before.cancelled {
				w.t.Fatalf("call %d began before call %d", c.asked, before.asked)
			}
		}
	}
	c.opened = true
	w.wire = append(w.wire, frame{c, n, end})
}

func (w *world) arrive() {
	if len(w.wire) == 0 {
		return
	}
	f := w.wire[0]
	w.wire = w.wire[1:]
	if f.bytes < 0 { // a cancellation
		w.end(f.of)
		return
	}
	if !w.bytes.Receive(Cost(f.bytes)) || !f.of.window.Receive(Cost(f.bytes)) {
		w.t.Fatalf("call %d sent more than was granted", f.of.asked)
	}
	if !f.of.open && !f.of.ended {
		f.of.open = true
		if !w.requests.Receive(1) {
			w.t.Fatalf("call %d began without credit", f.of.asked)
		}
	}
	f.of.unread = append(f.of.unread, Cost(f.bytes))
	w.grant(w.bytes.Take(Cost(f.bytes)), 0) // the connection's is returned when it has arrived
	if f.end {
		w.end(f.of)
	}
}

func (w *world) end(c *call) {
	if c.ended {
		w.t.Fatalf("call %d ended twice", c.asked)
	}
	c.ended, c.unread = true, nil
	if c.open {
		w.grant(0, w.requests.Take(1))
	}
}

func (w *world) read() {
	for _, c := range w.calls {
		if len(c.unread) > 0 && w.random.IntN(2) == 0 {
			grant := c.window.Take(c.unread[0])
			c.unread = c.unread[1:]
			if grant > 0 {
				w.back = append(w.back, func() { w.sender.GrantStream(&c.Stream, grant) })
			}
		}
	}
}

func (w *world) grant(bytes, requests int64) {
	if bytes > 0 || requests > 0 {
		w.back = append(w.back, func() { w.sender.Grant(bytes, requests) })
	}
}

func (w *world) granted() {
	if len(w.back) > 0 {
		w.back[0]()
		w.back = w.back[1:]
	}
}

func (w *world) cancel(c *call) {
	if c.cancelled || c.opened && !c.hasMessage && c.toSend == 0 {
		return // it has sent all
	}
	c.cancelled = true
	if begun := w.sender.Cancel(&c.Stream); begun != c.opened {
		w.t.Fatalf("call %d was begun: %v, and said to be: %v", c.asked, c.opened, begun)
	}
	if c.opened {
		w.wire = append(w.wire, frame{of: c, bytes: -1})
	}
}

func (w *world) check(size, most int64) {
	s := w.sender
	if s.bytes < 0 || s.requests < 0 || s.bytes > size || s.requests > most {
		w.t.Fatalf("the sender has credit for %d bytes of %d and %d requests of %d", s.bytes, size, s.requests, most)
	}
	for _, c := range w.calls {
		if c.credit < 0 {
			w.t.Fatalf("call %d has %d bytes of credit", c.asked, c.credit)
		}
	}
}

// finish lets the receiver take all in: then all is sent, and all credit is back.
func (w *world) finish(size, most int64) {
	for quiet := 0; quiet < 3; quiet++ {
		before := len(w.wire) + len(w.back)
		for range 10 * len(w.calls) * 20 {
			w.turn()
			w.arrive()
			w.read()
			w.granted()
		}
		if before > 0 || len(w.wire)+len(w.back) > 0 {
			quiet = min(quiet, 1)
		}
		if len(w.wire)+len(w.back) == 0 && quiet > 0 {
			break
		}
	}
	for _, c := range w.calls {
		if !c.cancelled && !c.ended {
			w.t.Fatalf("call %d has not ended: %d bytes left, busy %v, credit %d", c.asked, c.left, c.hasMessage, c.credit)
		}
	}
	if got := w.sender.bytes + w.bytes.back; got != size {
		w.t.Errorf("%d bytes of credit at the end, of %d", got, size)
	}
	if got := w.sender.requests + w.requests.back; got != most {
		w.t.Errorf("%d requests of credit at the end, of %d", got, most)
	}
	if n := len(w.sender.All()); n != 0 {
		w.t.Errorf("%d streams still wait to send or to begin", n)
	}
}
