package link

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
	"wirelab.dev/rpc/creditrpc/internal/link/progress"
)

// Each test here of a peer that wastes work has twins: the busiest peers that break no rule. They
// are allowed no frame without progress at all, and no time passes.

// TestFramesWithoutProgress floods each end with each kind of frame. The flood is stopped soon, by
// an error that names the frame. It is not stopped if the frames come slowly enough.
func TestFramesWithoutProgress(t *testing.T) {
	ping := "12345678"
	for _, c := range []struct {
		name  string
		ends  string // that may get the frame: s, c or both
		begin func(t *testing.T, client bool) *Link
		frame []byte
		free  int // the most of them that a correct peer may send
		what  string
	}{
		{"pings", "cs", greeted, one(frame.Ping, 0, 0, ping), 0, "a Ping"},
		{"answers to no ping", "cs", greeted, one(frame.Ping, frame.Answer, 0, ping), 0, "an answer to no Ping"},
		{"grants of nothing", "cs", greeted, one(frame.Credit, 0, 0, "\x00\x00"), 0, "a Credit"},
		{"grants of a byte", "cs", greeted, one(frame.Credit, 0, 0, "\x01\x00"), progress.GrantsPerFrame, "a Credit"},
		{"grants of a call", "cs", greeted, one(frame.Credit, 0, 0, "\x00\x01"), progress.GrantsPerFrame, "a Credit"},
		{"grants on a stream", "cs", greeted, one(frame.Credit, 0, 1, "\x01\x00"), progress.GrantsPerFrame, "a Credit"},
		{"grants on a stream that is over", "cs", callEnded, one(frame.Credit, 0, 1, "\x01\x00"), progress.GrantsPerFrame, "a Credit"},
		{"cancels of a call that is over", "cs", callEnded, one(frame.Cancel, 0, 1, ""), progress.EndsPerCall, "for a call that is over"},
		{"headers of a call that is over", "c", callEnded, one(frame.Header, 0, 1, ""), progress.EndsPerCall, "for a call that is over"},
		{"statuses of a call that is over", "c", callEnded, one(frame.Status, 0, 1, "\x00\x00\x00"), progress.EndsPerCall, "for a call that is over"},
		{"bytes of a call that is over", "cs", callEnded, one(frame.Data, 0, 1, "x"), credit.MinWindow / 65, "a Data for a call that is over"},
		{"no bytes of a call that is over", "cs", callEnded, one(frame.Data, 0, 1, ""), credit.MinWindow / 64, "a Data for a call that is over"},
		{"data after the end", "s", callEnded, one(frame.Data, 0, 1, ""), credit.MinWindow / 64, "a Data for a call that is over"},
		{"data without a message", "cs", greeted, one(frame.Data, frame.Nothing, 1, ""), 0, "a Data without a message"},
		{"empty parts", "cs", messageBegun, one(frame.Data, frame.More, 1, ""), 0, "a Data without a message"},
		{"headers", "c", greeted, one(frame.Header, 0, 1, ""), 1, "a second Header"},
		{"goodbyes", "c", greeted, one(frame.Goodbye, 0, 0, "\x01"), 1, "a second Goodbye"},
	} {
		for _, end := range c.ends {
			name := fmt.Sprintf("%s at %c", c.name, end)
			fed, err := flood(c.begin(t, end == 'c'), c.frame, 5*progress.MaxUseless, 0)
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), c.what) || fed < progress.MaxUseless || fed > progress.MaxUseless+c.free {
				t.Errorf("%s: after %d frames: %v; want the end after %d, and %d that are free", name, fed, err, progress.MaxUseless, c.free)
			}
			slow := c.begin(t, end == 'c')
			slow.allowed.Left = 10
			if fed, err := flood(slow, c.frame, 5000, time.Second/progress.UselessPerSecond); err != nil {
				t.Errorf("%s: %d per second: after %d frames: %v", name, progress.UselessPerSecond, fed, err)
			}
		}
	}
}

// flood feeds the same frame n times with a pause after each, or until the connection ends.
func flood(l *Link, in []byte, n int, pause time.Duration) (fed int, err error) {
	for now := time.Duration(0); fed < n; now += pause {
		if _, err := l.Feed(now, in, 1); err != nil {
			return fed, err
		}
		fed++
		if l.Pending() > 0 {
			l.TakeOutput().Recycle()
		}
	}
	return fed, nil
}

// callEnded is an end whose only call is over, though its peer may not know.
func callEnded(t *testing.T, client bool) *Link {
	t.Helper()
	l := greeted(t, client)
	for _, s := range l.All() {
		if client {
			l.Cancel(s)
		} else {
			l.End(s)
		}
	}
	return l
}

// messageBegun is an end that has a part of a message.
func messageBegun(t *testing.T, client bool) *Link {
	t.Helper()
	l := greeted(t, client)
	if _, err := l.Feed(0, one(frame.Data, frame.Long|frame.More, 1, "\x03a"), 1); err != nil {
		t.Fatal(err)
	}
	return l
}

// allowNothing makes both ends fail at the first frame that makes no progress.
func (p *pair) allowNothing() {
	for _, e := range []*end{p.client, p.server} {
		e.link.allowed.Left = -1 << 60 // no test earns as many
	}
}

// TestCancelsCrossTheEnd has a client give up every call, when it has sent a part of it, all of it,
// or more than the server wants. Some calls end at the same time at the server, well or not, and the
// server refuses some and is about to leave at last.
func TestCancelsCrossTheEnd(t *testing.T) {
	p := newPair(t, func(_, server *Config) { server.MaxMessage = 50_000 })
	p.settle()
	p.allowNothing()
	random := rand.New(rand.NewPCG(1, 1))
	released := 0
	for i := range 5000 {
		method := []string{"/s/m", "/s/m", "/s/m", "unknown"}[random.IntN(4)]
		c := p.begin(method, content([]int{0, 10, 300, 50_001}[random.IntN(4)], i), random.IntN(2) == 0)
		if random.IntN(3) > 0 {
			p.settle()
		}
		for range random.IntN(4) {
			p.client.link.Send(&c.stream, batchio.Payload{Data: content(100, i)}, false)
		}
		if i == 4990 {
			p.server.link.Goodbye() // while calls are under way
		}
		p.client.link.Cancel(&c.stream)
		for _, s := range p.server.calls[released:] {
			switch random.IntN(4) {
			case 0:
				p.server.link.Send(&s.stream, batchio.Payload{Data: content(1000, i)}, true)
			case 1:
				p.server.link.SendHeader(&s.stream, nil)
				p.server.link.SendStatus(&s.stream, frame.Ending{Code: 1})
			case 2:
				p.server.link.SendHeader(&s.stream, nil)
				p.server.link.Send(&s.stream, batchio.Payload{Data: content(1000, i)}, false)
			}
		}
		p.settle()
		for _, s := range p.server.calls[released:] {
			p.server.link.SendStatus(&s.stream, frame.Ending{})
			p.server.link.Release(&s.stream)
		}
		released = len(p.server.calls)
		p.settle()
		for _, e := range []*end{p.client, p.server} { // no call can use what others may still send
			e.link.allowed.LateBytes, e.link.allowed.LateFrames = 0, 0
		}
	}
	if began := p.server.link.lastID; began < 2500 {
		t.Errorf("only %d calls began", began)
	}
}

// TestShortMessagesAreProgress sends messages of a byte and of none on one stream, both ways.
func TestShortMessagesAreProgress(t *testing.T) {
	const messages = 5 * progress.MaxUseless
	p := newPair(t, nil)
	p.settle()
	p.allowNothing()
	c := p.begin("/s/m", nil, false)
	p.settle()
	s := p.server.calls[0]
	for i := range messages {
		p.client.link.Send(&c.stream, batchio.Payload{Data: content(i%2, i)}, false)
		p.server.link.Send(&s.stream, batchio.Payload{Data: content(i%2, i)}, false)
		p.settle()
		p.server.read(s)
		p.client.read(c)
	}
	p.settle()
	for p.server.read(s) {
		p.settle()
	}
	if len(s.received) != messages+1 || len(c.received) != messages {
		t.Errorf("%d messages came at the server and %d at the client", len(s.received), len(c.received))
	}
}

// TestBytesOneByOne sends a message in parts of a byte, as a sender does whose stream is granted
// no more at a time.
func TestBytesOneByOne(t *testing.T) {
	const bytes = 5 * progress.MaxUseless
	for _, client := range []bool{false, true} {
		l := greeted(t, client)
		l.allowed.Left = -1 << 60
		in := one(frame.Data, frame.Long|frame.More, 1, string([]byte{0x80 | bytes&0x7f, 0x80 | bytes>>7&0x7f, bytes >> 14}))
		for range bytes {
			if _, err := l.Feed(0, in, 1); err != nil {
				t.Fatal(err)
			}
			in = one(frame.Data, frame.More, 1, "x")
			if l.Pending() > 0 {
				l.TakeOutput().Recycle()
			}
		}
	}
}

// TestGrantsOfASlowReader has a peer read a long answer in pieces, and grant each piece to the
// connection and the stream: each 256 bytes of long messages, and each short message.
func TestGrantsOfASlowReader(t *testing.T) {
	for _, size := range []int{1, 10_000, credit.Turn} {
		l := greeted(t, false)
		l.allowed.Left = -1 << 60
		var s *Stream
		for _, s = range l.All() {
		}
		for sent := 0; sent < 20_000_000 && sent/size < progress.MaxUseless; sent += size {
			l.Send(s, batchio.Payload{Data: content(size, 1)}, false)
			if !s.Idle() {
				t.Fatalf("a message of %d bytes has no credit", size)
			}
			l.TakeOutput().Recycle()
			for left := int(credit.Cost(size)); left > 0; left -= 256 {
				grant := string(frame.Grant{Bytes: uint64(min(left, 256))}.Append(nil))
				for _, stream := range []uint32{0, 1} {
					if _, err := l.Feed(0, one(frame.Credit, 0, stream, grant), 1); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestPingsOfAnIdleConnection pings the connection of an idle stream, from both ends, every 10
// seconds for a month.
func TestPingsOfAnIdleConnection(t *testing.T) {
	for _, client := range []bool{false, true} {
		l := greeted(t, client)
		l.allowed.Left = 1
		pings := append(one(frame.Ping, 0, 0, "12345678"), one(frame.Ping, frame.Answer, 0, "12345678")...)
		for now := time.Duration(0); now < 30*24*time.Hour; now += 10 * time.Second {
			l.Ping()
			if _, err := l.Feed(now, pings, 2); err != nil {
				t.Fatalf("after %v: %v", now, err)
			}
			l.TakeOutput().Recycle()
		}
	}
}
