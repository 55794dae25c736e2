package link

import (
	"bytes"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

func (l *Link) receive(head frame.Head, payload []byte) error {
	switch head.Type {
	case frame.Hello:
		return l.hello(payload)
	case frame.Method:
		return l.method(payload)
	case frame.Request:
		return l.request(head, payload)
	case frame.Data:
		return l.data(head, payload)
	case frame.Header:
		if !l.cfg.Client {
			return l.fault("a Header frame from a client: its metadata belongs in the request")
		}
		if s := l.streams[head.Stream]; s != nil {
			l.handler.OnHeader(s, payload)
		}
		return l.known(head)
	case frame.Status:
		return l.status(head, payload)
	case frame.Cancel:
		if s := l.streams[head.Stream]; s != nil {
			s.peerDone = true
			l.drop(s)
			l.handler.OnCancel(s)
		}
		return l.known(head)
	case frame.Credit:
		return l.credit(head, payload)
	case frame.Ping:
		return l.ping(head, payload)
	default:
		return l.goodbye(payload)
	}
}

// known checks that a frame's stream was begun at some time. Frames of ended calls may still
// arrive.
func (l *Link) known(head frame.Head) error {
	if head.Stream > l.lastID {
		return l.fault("a frame of type %d for the stream %d, which was not begun", head.Type, head.Stream)
	}
	return nil
}

func (l *Link) hello(payload []byte) error {
	if l.greeted {
		return l.fault("a second Hello")
	}
	peer, err := frame.ReadHello(payload)
	switch {
	case err != nil:
		return l.fault("%v", err)
	case peer.Window < credit.LeastWindow || peer.PerStream < credit.LeastWindow:
		return l.fault("the peer grants %d bytes, and %d per stream: want at least %d", peer.Window, peer.PerStream, credit.LeastWindow)
	case peer.Window > maxSetting || peer.PerStream > maxSetting || peer.Calls > maxSetting || peer.MaxMessage > maxSetting || peer.MaxMeta > maxSetting:
		return l.fault("the peer's settings are out of range: %+v", peer)
	}
	peer.MaxMeta = min(peer.MaxMeta, MaxMeta) // it must fit into a turn
	l.peer, l.greeted = peer, true
	l.sender.Grant(int64(peer.Window), int64(peer.Calls))
	return nil
}

const maxSetting = 1 << 40

func (l *Link) method(name []byte) error {
	if l.cfg.Client || len(l.names) >= maxMethods || len(name) > maxMethodName {
		return l.fault("a method name of %d bytes, after %d other names", len(name), len(l.names))
	}
	l.names = append(l.names, string(name))
	return nil
}

func (l *Link) request(head frame.Head, payload []byte) error {
	r := frame.Read(payload)
	begin := frame.ReadBegin(r)
	switch {
	case l.cfg.Client:
		return l.fault("a request from a server")
	case r.Err() != nil:
		return l.fault("%v", r.Err())
	case head.Stream != l.lastID+1:
		return l.fault("request %d after request %d: want a higher number", head.Stream, l.lastID)
	case begin.Method >= uint64(len(l.names)):
		return l.fault("method %d, but only %d are named", begin.Method, len(l.names))
	case len(begin.Meta) > l.cfg.MaxMeta:
		return l.fault("%d bytes of metadata, at most %d are allowed", len(begin.Meta), l.cfg.MaxMeta)
	case !l.calls.Receive(1):
		return l.fault("a request without credit")
	case !l.window.Receive(credit.Cost(head.Length)):
		return l.fault("%d bytes without credit", head.Length)
	}
	l.lastID = head.Stream
	if l.draining {
		l.append(frame.Head{Type: frame.Cancel, Stream: head.Stream}, nil)
		l.take(credit.Cost(head.Length))
		l.calls.Take(1) // grants nothing to a peer that must leave
		return nil
	}
	s := l.handler.OnRequest(head.Stream, l.names[begin.Method], begin)
	if s == nil {
		l.take(credit.Cost(head.Length))
		l.returnCall()
		return nil
	}
	*s = Stream{Owner: s.Owner, id: head.Stream, state: open, window: credit.NewWindow(l.cfg.PerStream)}
	s.send.Of = s
	s.send.Accept(int64(l.peer.PerStream))
	s.window.Receive(credit.Cost(head.Length)) // a new stream always has that credit
	l.streams[s.id] = s
	if cost := credit.Cost(head.Length); head.Flags&frame.More == 0 {
		s.held = cost
	} else {
		l.take(cost) // an incomplete message cannot return it
	}
	return l.message(s, head, r, credit.Cost(head.Length))
}

func (l *Link) data(head frame.Head, payload []byte) error {
	cost := credit.Cost(head.Length)
	if !l.window.Receive(cost) {
		return l.fault("%d bytes without credit", head.Length)
	}
	s := l.streams[head.Stream]
	if s == nil || s.peerDone {
		l.take(cost)
		return l.known(head)
	}
	if !s.window.Receive(cost) {
		return l.fault("%d bytes on stream %d without credit", head.Length, head.Stream)
	}
	l.take(cost)
	return l.message(s, head, frame.Read(payload), cost)
}

// message handles a message or a part of one.
func (l *Link) message(s *Stream, head frame.Head, r *frame.Reader, cost int64) error {
	whole := 0
	if head.Flags&frame.Long != 0 {
		if s.incoming != nil {
			return l.fault("a message inside another one, on stream %d", s.id)
		}
		whole = int(min(r.Number(), maxSetting))
	}
	data := r.Rest()
	switch {
	case r.Err() != nil:
		return l.fault("%v", r.Err())
	case contradict(head.Flags), head.Flags&frame.Nothing != 0 && (len(data) > 0 || s.incoming != nil):
		return l.fault("flags %#x with %d bytes, on stream %d", byte(head.Flags), len(data), s.id)
	case head.Flags&(frame.Long|frame.More) == frame.Long && whole != len(data):
		return l.fault("a message of announced length %d has %d bytes, on stream %d", whole, len(data), s.id)
	case s.incoming == nil && head.Flags&frame.More != 0 && head.Flags&frame.Long == 0:
		return l.fault("a message in parts without its length, on stream %d", s.id)
	case max(whole, len(data)) > l.cfg.MaxMessage:
		s.peerDone = true
		l.returned(s, cost)
		l.handler.OnTooLong(s, max(whole, len(data)))
		return nil
	}
	if head.Flags&frame.More != 0 && s.incoming == nil {
		l.expect(s, data, whole)
	}
	switch {
	case s.incoming != nil:
		if err := l.part(s, head, data, cost); err != nil {
			return err
		}
	case head.Flags&frame.Nothing != 0:
		l.returned(s, cost)
	default:
		kept := credit.Cost(len(data)) // credit to keep until the message is read
		l.returned(s, cost-kept)
		l.handler.OnMessage(s, Message{Data: data, Credit: kept})
	}
	if head.Flags&frame.End != 0 && s.state != gone {
		s.peerDone = true
		if l.cfg.Client {
			l.settle(s) // first: the handler may reuse the stream
		}
		l.handler.OnEnd(s)
	}
	return nil
}

// contradict reports whether the flags of a Request or Data exclude each other.
func contradict(f frame.Flags) bool {
	return f&frame.More != 0 && f&(frame.End|frame.Nothing) != 0 || f&frame.Nothing != 0 && f&frame.Long != 0
}

// expect prepares for a message in parts. If it may be longer than the stream's credit allows,
// it needs room, and may have to wait for it.
func (l *Link) expect(s *Stream, first []byte, whole int) {
	s.have, s.whole = 0, whole
	if int64(whole+(whole/credit.Turn+2)*credit.Overhead) > l.cfg.PerStream/2 {
		s.reserved = int64(whole)
		if !l.takeRoom(s.reserved) {
			l.waitingForRoom = append(l.waitingForRoom, s)
			s.waits = true
		}
	}
	s.incoming = batchio.NewBuffer(l.memory(s, len(first)))
}

// growth bounds the memory of a message in parts, as a multiple of the bytes that have arrived.
// The announced length is only a claim.
const growth = 8

// memory returns the buffer size for a message, given the number of its arrived bytes. A message
// that waits for room gets no more than its stream's credit.
func (l *Link) memory(s *Stream, have int) int {
	size := min(s.whole, growth*have)
	if s.waits {
		size = min(size, max(have, int(l.cfg.PerStream)))
	}
	return size
}

// appendPart adds a part to the message.
func (l *Link) appendPart(s *Stream, data []byte) {
	from := s.have
	s.have += len(data)
	if s.have > len(s.incoming.Data) {
		grown := batchio.NewBuffer(l.memory(s, s.have))
		copy(grown.Data, s.incoming.Data[:from])
		s.incoming.Release()
		s.incoming = grown
	}
	copy(s.incoming.Data[from:], data)
}

func (l *Link) part(s *Stream, head frame.Head, data []byte, cost int64) error {
	if s.have+len(data) > s.whole || head.Flags&frame.More == 0 && s.have+len(data) < s.whole {
		return l.fault("a message of announced length %d has %d bytes, on stream %d", s.whole, s.have+len(data), s.id)
	}
	l.appendPart(s, data)
	more := head.Flags&frame.More != 0
	switch {
	case !s.waits && s.reserved > 0:
		l.returned(s, cost)
	case more:
		l.returned(s, cost-int64(len(data)))
	default: // the last part's overhead becomes the message's
		l.returned(s, cost-credit.Cost(len(data)))
	}
	if s.waits && more {
		s.unreturned += int64(len(data))
	}
	if more {
		return nil
	}
	m := Message{Data: s.incoming.Data, Buffer: s.incoming}
	if s.incoming = nil; batchio.BufferSize(s.whole) > 2*s.whole { // it may stay unread for long
		m.Data = bytes.Clone(m.Data)
		m.Release()
	}
	if s.waits { // all of it came within the stream's credit
		s.waits, s.reserved, s.unreturned = false, 0, 0
	}
	if s.reserved > 0 {
		s.unread += s.reserved // it keeps its room until the message is read
		m.Room, s.reserved = s.reserved, 0
	} else {
		m.Credit = credit.Cost(s.whole)
	}
	l.handler.OnMessage(s, m)
	return nil
}

// takeRoom takes room for all of a message, and reports whether there was enough. A message
// without room waits with none, so that no two messages wait for each other.
func (l *Link) takeRoom(bytes int64) bool {
	if bytes > l.room {
		return false
	}
	l.room -= bytes
	return true
}

// returnRoom gives room to messages that wait for it.
func (l *Link) returnRoom(bytes int64) {
	l.room += bytes
	for len(l.waitingForRoom) > 0 {
		next := l.waitingForRoom[0]
		if next.waits {
			if !l.takeRoom(next.reserved) {
				return
			}
			next.waits = false
			l.returned(next, next.unreturned)
			next.unreturned = 0
		}
		l.waitingForRoom[0] = nil
		l.waitingForRoom = l.waitingForRoom[1:]
	}
}

func (l *Link) status(head frame.Head, payload []byte) error {
	if !l.cfg.Client {
		return l.fault("a Status frame from a client: it ends calls by Cancel")
	}
	s := l.streams[head.Stream]
	if s == nil {
		return l.known(head)
	}
	ending, err := frame.ReadEnding(payload)
	if err != nil {
		return l.fault("%v", err)
	}
	s.peerDone = true
	l.settle(s)
	l.handler.OnStatus(s, &ending)
	return nil
}

func (l *Link) credit(head frame.Head, payload []byte) error {
	grant, err := frame.ReadGrant(payload)
	if err != nil {
		return l.fault("%v", err)
	}
	if head.Stream == 0 {
		l.sender.Grant(int64(grant.Bytes), int64(grant.Requests))
		return nil
	}
	if s := l.streams[head.Stream]; s != nil {
		l.sender.GrantStream(&s.send, int64(grant.Bytes))
	}
	return l.known(head)
}

func (l *Link) ping(head frame.Head, payload []byte) error {
	if len(payload) != pingLen {
		return l.fault("a ping of %d bytes", len(payload))
	}
	if head.Flags&frame.Answer == 0 {
		l.append(frame.Head{Type: frame.Ping, Flags: frame.Answer}, payload)
	}
	return nil // the sender of the ping checks the time of the last read
}

func (l *Link) goodbye(payload []byte) error {
	if !l.cfg.Client {
		return l.fault("a Goodbye frame from a client: it closes the connection instead")
	}
	r := frame.Read(payload)
	last := r.Number()
	if r.Err() != nil {
		return l.fault("%v", r.Err())
	}
	l.draining = true
	l.handler.OnGoodbye()
	for id, s := range l.streams {
		if uint64(id) > last {
			s.peerDone = true
			l.drop(s)
			l.handler.OnCancel(s)
		}
	}
	return nil
}
