package h2

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/http2"

	"wirelab.dev/rpc/batchio"
)

// desk is a server whose calls begin, wait and are answered as a test says.
type desk struct {
	*recorder
	t       *testing.T
	next    uint32
	working []*Stream
}

// newDesk returns a server with the windows that a client says it has.
func newDesk(t *testing.T, window uint32) *desk {
	cfg := testConfig
	cfg.MaxStreams, cfg.ControlRate = 1<<20, 0
	cfg.MemoryLimit = 32 << 20
	d := &desk{recorder: newServer(t, cfg), t: t, next: 1}
	feed(t, d.recorder, settingsFrame(http2.SettingInitialWindowSize, window))
	if window > 0 {
		feed(t, d.recorder, frame(http2.FrameWindowUpdate, 0, 0, 0x7f, 0, 0, 0))
	}
	d.take()
	return d
}

// arrive opens calls and lets those begin that may.
func (d *desk) arrive(calls int, streaming bool) {
	d.t.Helper()
	for range calls {
		feed(d.t, d.recorder, open(d.next, http2.FlagHeadersEndStream))
		if d.next += 2; len(d.streams) != int(d.next/2) {
			d.t.Fatal("a call was refused")
		}
		s := d.streams[len(d.streams)-1]
		s.Streaming = streaming
		if d.conn.BeginCall(s) {
			d.working = append(d.working, s)
		} else {
			d.conn.Park(s)
		}
	}
}

// answer lets the handler of the call that has worked longest return.
func (d *desk) answer(bytes int) {
	s := d.working[0]
	d.working = d.working[1:]
	d.conn.SendHeaders(s, responseRun, nil)
	d.conn.SendData(s, batchio.Payload{Data: make([]byte, bytes)}, false)
	d.conn.SendTrailers(s, trailerRun, nil)
	d.conn.Release(s)
	d.resume()
}

func (d *desk) resume() {
	for s := d.conn.Unpark(); s != nil; s = d.conn.Unpark() {
		d.working = append(d.working, s)
	}
}

func (d *desk) relieve() {
	d.conn.UnblockCalls()
	d.resume()
}

func (d *desk) wantWorking(n int, when string) {
	d.t.Helper()
	if len(d.working) != n {
		d.t.Fatalf("%s: %d calls are at work, want %d", when, len(d.working), n)
	}
}

// TestCallsBeginAsAnswersAreTaken has a peer that takes all answers.
func TestCallsBeginAsAnswersAreTaken(t *testing.T) {
	d := newDesk(t, maxWindow)
	d.arrive(5000, false)
	d.wantWorking(FirstCalls, "at first")
	for range 10 {
		d.answer(100)
		d.take()
	}
	d.wantWorking(FirstCalls+10*callsPerAnswer, "after ten answers")
	for len(d.working) > 0 {
		d.answer(100)
		d.take()
	}
	if n := d.conn.UnreleasedStreams(); n != 0 {
		t.Errorf("%d calls were never answered", n)
	}
	d.arrive(5000, false)
	d.wantWorking(5000, "later")
}

// TestNoCallBeginsWhileNoAnswerIsTaken has a peer whose windows are closed.
func TestNoCallBeginsWhileNoAnswerIsTaken(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		d := newDesk(t, 0)
		d.arrive(3000, streaming)
		answered := 0
		for ; len(d.working) > 0; answered++ {
			d.answer(100_000)
		}
		if answered < FirstCalls || answered > FirstCalls+d.conn.cfg.MemoryLimit/100_000*callsPerAnswer {
			t.Errorf("streaming=%v: %d handlers ran for a peer that takes nothing", streaming, answered)
		}
		// Relief is for calls that wait for each other, not for this peer.
		if !d.conn.UnblockCalls() {
			t.Error("no call is parked")
		}
		d.resume()
		d.wantWorking(0, "after relief")
	}
}

// TestAFullQueueKeepsCallsGoing has a peer that is slower than the handlers, but reads. As
// many calls stay at work or queued as there were when the queue became full.
func TestAFullQueueKeepsCallsGoing(t *testing.T) {
	d := newDesk(t, 0)
	const callers, bytes = 300, 150_000
	d.arrive(callers, false)
	for len(d.working) > 0 {
		d.answer(bytes)
	}
	if !d.conn.answersFull {
		t.Fatal("the queue is not full")
	}
	queued := slices.Clone(d.streams)
	for i, s := range queued[:60] {
		feed(t, d.recorder, window(s.ID(), bytes), window(0, bytes))
		for d.conn.Pending() > 0 {
			d.take()
		}
		d.arrive(1, false)
		d.wantWorking(i+1, "after as many answers were taken")
	}
}

// TestShortAnswersPassLongOnes parks calls with long answers before one with a short one.
func TestShortAnswersPassLongOnes(t *testing.T) {
	d := newDesk(t, maxWindow)
	d.arrive(FirstCalls+100, false)
	feed(t, d.recorder, open(d.next, http2.FlagHeadersEndStream))
	ping := d.streams[len(d.streams)-1]
	ping.Short = true
	d.conn.Park(ping)
	d.answer(100)
	d.take()
	if at := slices.Index(d.working, ping); at < FirstCalls-1 || at > FirstCalls {
		t.Errorf("the short call begins as number %d of %d", at, len(d.working))
	}
	for d.conn.anyParked() {
		d.answer(100)
		d.take()
	}
}

func window(id, n uint32) []byte {
	return frame(http2.FrameWindowUpdate, 0, id, binary.BigEndian.AppendUint32(nil, n)...)
}

// TestResetsFreePlaces cancels calls that are parked, at work and queued.
func TestResetsFreePlaces(t *testing.T) {
	d := newDesk(t, 0)
	d.arrive(3*FirstCalls, false)
	for range FirstCalls / 2 {
		d.answer(10)
	}
	for _, s := range d.streams {
		feed(t, d.recorder, frame(http2.FrameRSTStream, 0, s.ID(), 0, 0, 0, 8))
		d.take()
	}
	d.wantWorking(FirstCalls/2, "after the resets, whose handlers still run")
	for _, s := range d.streams {
		d.conn.Release(s) // as their handlers return, and as the owner drops what is parked
	}
	if c := d.conn; c.anyParked() || c.free.Load() != int64(c.calls) || c.queued != 0 || c.records != 0 {
		t.Errorf("left: parked %v, %d of %d places free, %d bytes queued, %d of records", c.anyParked(), c.free.Load(), c.calls, c.queued, c.records)
	}
}

// TestWaitingHandlersAreRelieved has handlers that all wait until the last has begun.
func TestWaitingHandlersAreRelieved(t *testing.T) {
	d := newDesk(t, maxWindow)
	d.arrive(5000, false)
	reliefs := 0
	for ; d.conn.UnblockCalls(); reliefs++ {
		d.resume()
	}
	d.resume()
	d.wantWorking(5000, "in the end")
	if reliefs > 12 {
		t.Errorf("it took %d reliefs", reliefs)
	}
}

// TestReliefIsForPeersThatTake has one handler answer while others wait. Many more calls may
// begin only if the peer takes that answer.
func TestReliefIsForPeersThatTake(t *testing.T) {
	d := newDesk(t, 0)
	d.arrive(2*FirstCalls, false)
	d.answer(1000)
	d.relieve()
	d.relieve()
	d.wantWorking(FirstCalls-1+2*callsUnread, "while an answer lies")
	calls := d.conn.calls
	feed(t, d.recorder, window(d.streams[0].ID(), 10), window(0, 10))
	d.relieve()
	d.wantWorking(FirstCalls-1+2*callsUnread+calls/4, "while a part of it was taken")
}

// TestStreamsRest checks that a stream takes a place only until its header is sent, and
// while a message of it waits.
func TestStreamsRest(t *testing.T) {
	d := newDesk(t, 0)
	d.arrive(2000, true)
	d.wantWorking(FirstCalls, "at first")
	for i := range 2000 {
		d.conn.SendHeaders(d.working[i], responseRun, nil)
		d.take()
		d.resume()
	}
	d.wantWorking(2000, "after their headers")
	free := d.conn.free.Load()
	d.conn.SendData(d.working[0], batchio.Payload{Data: make([]byte, 10)}, false)
	if n := d.conn.free.Load(); n != free-1 {
		t.Errorf("a stream whose message waits takes %d places", free-n)
	}
	feed(t, d.recorder, window(d.working[0].ID(), 100))
	if n := d.conn.free.Load(); n != free {
		t.Errorf("a stream whose message was taken takes %d places", free-n)
	}
}

// uploads is a client with long messages, and a server that assembles them.
type uploads struct {
	*recorder
	*sender
	left    map[uint32]int // bytes of each message that have not been sent
	missing map[uint32]int // and that have not arrived
	updates int
	peak    int
}

func newUploads(t *testing.T, cfg Config, messages, bytes int) *uploads {
	client := newSender(t, cfg)
	u := &uploads{recorder: client.to, sender: client, left: map[uint32]int{}, missing: map[uint32]int{}}
	u.to.conn.handler = u
	for i := range messages {
		id := uint32(2*i + 1)
		feed(t, u.to, open(id, 0))
		u.left[id], u.missing[id] = bytes, bytes
	}
	return u
}

// OnData keeps content until its message is complete. Then the handler has it at once.
func (u *uploads) OnData(s *Stream, data []byte, _ bool) {
	conn := u.to.conn
	conn.cfg.Kept.Add(int64(len(data)))
	u.peak = max(u.peak, conn.contentBytes())
	if u.missing[s.ID()] -= len(data); u.missing[s.ID()] > 0 {
		conn.ConsumePartial(s, len(data), u.missing[s.ID()])
		return
	}
	conn.CompleteMessage(s)
	conn.Consume(s, len(data))
	conn.cfg.Kept.Add(-s.received)
	conn.Reset(s, http2.ErrCodeNo)
	conn.Release(s)
}

// play sends frames of random streams, as the windows allow, until nothing is left.
func (u *uploads) play(random *rand.Rand) {
	var ids []uint32
	for id := range u.left {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	stuck := 0
	for len(ids) > 0 {
		i := random.IntN(len(ids))
		id := ids[i]
		n := min(1<<14, int64(u.left[id]), u.initial-u.used[id], u.connection)
		if n > 0 {
			u.used[id] += n
			u.connection -= n
			u.left[id] -= int(n)
			feed(u.t, u.to, frame(http2.FrameData, 0, id, make([]byte, n)...))
			stuck = 0
		}
		if u.left[id] == 0 {
			ids = slices.Delete(ids, i, i+1)
		}
		if random.IntN(8) == 0 || n <= 0 {
			u.count(u.to.take())
		}
		if stuck++; stuck > 100*len(ids)+1000 {
			c := u.to.conn
			u.t.Fatalf("%d messages are stuck: %d bytes of content, %d granted, %d streams wait; connection window %d and %d to renew, stream windows %d and %d", len(ids), c.contentBytes(), c.granted, c.growing.n, c.recvWindow, c.uncredited, c.window, c.nextWindow)
		}
	}
}

// count counts the stream's window updates in the server's output, and takes them in.
func (u *uploads) count(out []byte) {
	for rest := out; len(rest) > 0; {
		h := ParseFrameHeader(rest)
		if h.Type == http2.FrameWindowUpdate && h.StreamID != 0 {
			u.updates++
		}
		rest = rest[FrameHeaderLen+h.Length:]
	}
	u.takeIn(out)
}

// TestLongMessagesAreGrantedWhole sends many times the memory limit in long messages of
// many streams at once. All must arrive, within the limit, and not in crumbs.
func TestLongMessagesAreGrantedWhole(t *testing.T) {
	cfg := testConfig
	cfg.MaxStreams, cfg.ControlRate = 1<<20, 0
	cfg.MemoryLimit, cfg.StreamWindow, cfg.ConnWindow = 8<<20, 256<<10, 1<<20
	for seed, c := range []struct{ messages, bytes int }{{1000, 100_000}, {100, 1_000_000}, {20, 5_000_000}, {3, 20_000_000}, {2500, 20_000}} {
		u := newUploads(t, cfg, c.messages, c.bytes)
		u.play(rand.New(rand.NewPCG(uint64(seed), 3)))
		if most := cfg.MemoryLimit + max(c.bytes, c.messages*minSmallWindow); u.peak > most {
			t.Errorf("%d messages of %d bytes: %d bytes of content were kept, want at most %d", c.messages, c.bytes, u.peak, most)
		}
		if most := 4*c.messages + c.messages*c.bytes/(cfg.StreamWindow/4); u.updates > most {
			t.Errorf("%d messages of %d bytes took %d window updates, want at most %d", c.messages, c.bytes, u.updates, most)
		}
		if n := u.to.conn.granted; n != 0 {
			t.Errorf("%d bytes are granted for ever", n)
		}
	}
}

// TestGrantsKeepToTheProtocol announces a message that is longer than the largest window.
func TestGrantsKeepToTheProtocol(t *testing.T) {
	cfg := testConfig
	cfg.MemoryLimit, cfg.StreamWindow, cfg.ConnWindow = 8<<20, 256<<10, 128<<10
	client := newSender(t, cfg)
	feed(t, client.to, open(1, 0))
	client.to.conn.cfg.Kept.Add(4 << 20)
	for client.to.conn.window == cfg.StreamWindow { // until windows are small
		client.send(1, 0)
		client.receive()
	}
	s := client.to.streams[0]
	for missing := 5 << 30; missing > 0; {
		client.to.conn.ConsumePartial(s, 0, missing)
		if s.recvWindow <= 0 || s.recvWindow > maxWindow {
			t.Fatalf("the window is %d with %d bytes missing", s.recvWindow, missing)
		}
		arrived := min(int(s.recvWindow), missing)
		s.recvWindow -= int64(arrived)
		client.to.conn.granted -= s.granted
		s.granted = 0
		missing -= arrived
	}
}

// TestMemoryThatIsFreedIsGranted fills the memory with the messages of parked calls. An
// incomplete message waits until their handlers take them.
func TestMemoryThatIsFreedIsGranted(t *testing.T) {
	cfg := testConfig
	cfg.MemoryLimit, cfg.StreamWindow, cfg.ConnWindow = 8<<20, 256<<10, 1<<20
	u := newUploads(t, cfg, 1, 3_000_000)
	feed(t, u.to, open(3, http2.FlagHeadersEndStream))
	u.to.conn.Park(u.to.streams[1])
	kept := u.to.conn.cfg.Kept
	freed := make(chan struct{}, 1)
	kept.Freed = func() { freed <- struct{}{} }
	kept.Add(int64(cfg.MemoryLimit))
	for u.left[1] > 0 {
		n := min(1<<14, int64(u.left[1]), u.initial-u.used[1], u.connection)
		if n <= 0 && u.to.conn.Pending() == 0 {
			break
		}
		if n > 0 {
			u.used[1] += n
			u.connection -= n
			u.left[1] -= int(n)
			feed(t, u.to, frame(http2.FrameData, 0, 1, make([]byte, n)...))
		}
		u.count(u.to.take())
	}
	if u.left[1] == 0 {
		t.Fatal("the message came although there was no memory")
	}
	select {
	case <-freed:
		t.Fatal("memory was freed before its time")
	default:
	}
	kept.Add(-int64(cfg.MemoryLimit))
	<-freed
	u.to.conn.GrantContent()
	u.play(rand.New(rand.NewPCG(1, 1)))
}

// TestShortAnswersWaitForTheConnectionAlone queues short answers behind long ones while the
// connection's window is closed. When it opens, they come first.
func TestShortAnswersWaitForTheConnectionAlone(t *testing.T) {
	d := newDesk(t, 0)
	feed(t, d.recorder, settingsFrame(http2.SettingInitialWindowSize, maxWindow))
	const long, short = 100, 10
	d.arrive(long+short, false)
	for i := range long + short {
		d.answer(map[bool]int{true: 200_000, false: 100}[i < long])
		d.take()
	}
	feed(t, d.recorder, window(0, maxWindow/2-defaultWindow))
	sent := 0
	for ended := 0; ended < short; {
		for _, h := range frames(t, d.take()) {
			sent += h.Length
			if h.StreamID > 2*long && h.Flags.Has(http2.FlagHeadersEndStream) {
				ended++
			}
		}
	}
	if most := testConfig.OutputLimit + 2*turnBytes; sent > most {
		t.Errorf("%d bytes were sent before the short answers", sent)
	}
}

// TestFewLongMessagesAreUnderWay checks the order of long answers: a few at a time are sent,
// short ones go first, and each stream gets its turn.
func TestFewLongMessagesAreUnderWay(t *testing.T) {
	d := newDesk(t, maxWindow)
	d.conn.cfg.MemoryLimit = 1 << 30
	const long, short = 200, 50
	d.arrive(long, false)
	for range long {
		d.answer(300_000)
	}
	d.arrive(short, false)
	for range short {
		d.answer(1000)
	}
	begun, ended, shortEnded := map[uint32]bool{}, 0, 0
	for {
		out := d.take()
		if out == nil {
			break
		}
		for _, h := range frames(t, out) {
			if h.Type == http2.FrameData && h.StreamID <= 2*long {
				begun[h.StreamID] = true
			}
			if h.Flags.Has(http2.FlagDataEndStream) && (h.Type == http2.FrameData || h.Type == http2.FrameHeaders) {
				delete(begun, h.StreamID)
				ended++
				if h.StreamID > 2*long {
					if shortEnded++; shortEnded == short && ended > long/2 {
						t.Errorf("the short answers were sent after %d others", ended)
					}
				}
			}
		}
		if len(begun) > 3*maxActive { // those that lack little are not active any more
			t.Fatalf("%d long answers are under way at once", len(begun))
		}
	}
	if ended != long+short {
		t.Errorf("%d answers were sent, want %d", ended, long+short)
	}
}
