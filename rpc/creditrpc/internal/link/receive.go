package link

import (
	"bytes"
	"slices"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
	"wirelab.dev/rpc/creditrpc/internal/link/progress"
)

func (l *Link) receive(head frame.Head, payload []byte) error {
	switch head.Type {
	case frame.Hello:
		return l.receiveHello(payload)
	case frame.Method:
		return l.receiveMethod(payload)
	case frame.Request:
		return l.receiveRequest(head, payload)
	case frame.Data:
		return l.receiveData(head, payload)
	case frame.Header:
		if !l.cfg.Client {
			return l.protocolError("a Header frame from a client: its metadata belongs in the request")
		}
		return l.receiveHeader(head, payload)
	case frame.Status:
		return l.receiveStatus(head, payload)
	case frame.Cancel:
		s := l.streams[head.Stream]
		if s == nil {
			return l.receiveLate(head)
		}
		s.peerDone = true
		l.drop(s) // counts as no useless frame: the call keeps its place until Release
		l.handler.OnCancel(s)
		return nil
	case frame.Credit:
		return l.receiveCredit(head, payload)
	case frame.Ping:
		return l.receivePing(head, payload)
	default:
		return l.receiveGoodbye(payload)
	}
}

// limitUseless returns an error if the peer has sent too many frames without progress. last names
// the last one.
func (l *Link) limitUseless(allowed bool, last string) error {
	if allowed {
		return nil
	}
	return l.protocolError("the peer sent too many frames that make no progress, the last one %s: at most %d may come at once, and %d per second", last, progress.MaxUseless, progress.UselessPerSecond)
}

// receiveLate handles a frame, other than Data and Credit, of a call that is over.
func (l *Link) receiveLate(head frame.Head) error {
	if err := l.checkBegun(head); err != nil {
		return err
	}
	return l.limitUseless(l.allowed.SpendLate(), "for a call that is over")
}

// checkBegun returns an error if a frame's call was never begun. It allows frames of ended calls,
// because they may arrive late.
func (l *Link) checkBegun(head frame.Head) error {
	if head.Stream > l.lastID {
		return l.protocolError("the peer sent a frame of type %d for stream %d, which never began", head.Type, head.Stream)
	}
	return nil
}

func (l *Link) receiveHello(payload []byte) error {
	if l.greeted {
		return l.protocolError("the peer sent a second Hello frame")
	}
	peer, err := frame.ReadHello(payload)
	switch {
	case err != nil:
		return l.protocolError("%v", err)
	case peer.Window < credit.MinWindow || peer.PerStream < credit.MinWindow:
		return l.protocolError("the peer grants %d bytes per connection and %d per stream: want at least %d each", peer.Window, peer.PerStream, credit.MinWindow)
	case peer.Window > maxSetting || peer.PerStream > maxSetting || peer.Calls > maxSetting || peer.MaxMessage > maxSetting || peer.MaxMeta > maxSetting:
		return l.protocolError("the peer's settings are out of range: %+v", peer)
	}
	peer.MaxMeta = min(peer.MaxMeta, MaxMeta) // metadata must fit into a turn
	l.peer, l.greeted = peer, true
	l.sender.Grant(int64(peer.Window), int64(peer.Calls))
	return nil
}

const maxSetting = 1 << 40

func (l *Link) receiveMethod(name []byte) error {
	if l.cfg.Client || len(l.names) >= maxMethods || len(name) > maxMethodName {
		return l.protocolError("cannot accept a method name of %d bytes after %d other names", len(name), len(l.names))
	}
	l.names = append(l.names, string(name))
	return nil
}

func (l *Link) receiveHeader(head frame.Head, meta []byte) error {
	s := l.streams[head.Stream]
	switch {
	case s == nil:
		return l.receiveLate(head)
	case s.gotHeader:
		if err := l.limitUseless(l.allowed.Spend(1), "a second Header of a call"); err != nil {
			return err
		}
	}
	s.gotHeader = true
	l.handler.OnHeader(s, meta)
	return nil
}

func (l *Link) receiveRequest(head frame.Head, payload []byte) error {
	r := frame.NewReader(payload)
	begin := frame.ReadRequestStart(r)
	switch {
	case l.cfg.Client:
		return l.protocolError("the peer is a server and sent a request: only clients may")
	case r.Err() != nil:
		return l.protocolError("%v", r.Err())
	case head.Stream != l.lastID+1:
		return l.protocolError("request %d follows request %d: want the next number", head.Stream, l.lastID)
	case begin.Method >= uint64(len(l.names)):
		return l.protocolError("a request uses method number %d, but only %d methods have a name", begin.Method, len(l.names))
	case len(begin.Meta) > l.cfg.MaxMeta:
		return l.protocolError("a request has %d bytes of metadata: at most %d are allowed", len(begin.Meta), l.cfg.MaxMeta)
	case !l.calls.Receive(1):
		return l.protocolError("the peer sent a request without credit")
	case !l.window.Receive(credit.Cost(head.Length)):
		return l.protocolError("the peer sent %d bytes without credit of the connection", head.Length)
	}
	l.lastID = head.Stream
	if l.draining {
		l.appendFrame(frame.Head{Type: frame.Cancel, Stream: head.Stream}, nil)
		l.returnBytes(credit.Cost(head.Length))
		l.calls.Take(1) // the peer gets no new credit, because it must leave
		l.allowed.AddLate(l.cfg.PerStream)
		return nil
	}
	s := l.handler.OnRequest(head.Stream, l.names[begin.Method], begin)
	if s == nil {
		l.returnBytes(credit.Cost(head.Length))
		l.returnCall()
		l.allowed.AddLate(l.cfg.PerStream)
		return nil
	}
	*s = Stream{Owner: s.Owner, HoldsCredit: s.HoldsCredit, id: head.Stream, state: isOpen, window: credit.NewWindow(l.cfg.PerStream)}
	s.send.Of = s
	s.send.Accept(int64(l.peer.PerStream))
	s.window.Receive(credit.Cost(head.Length)) // a new stream always has enough credit
	l.streams[s.id] = s
	if cost := credit.Cost(head.Length); s.HoldsCredit && head.Flags&frame.More == 0 {
		s.held = cost
	} else {
		l.returnBytes(cost) // an incomplete message cannot return credit
	}
	return l.receiveMessage(s, head, r, credit.Cost(head.Length))
}

func (l *Link) receiveData(head frame.Head, payload []byte) error {
	cost := credit.Cost(head.Length)
	if !l.window.Receive(cost) {
		return l.protocolError("the peer sent %d bytes without credit of the connection", head.Length)
	}
	s := l.streams[head.Stream]
	if s == nil || s.peerDone {
		l.returnBytes(cost)
		if err := l.checkBegun(head); err != nil {
			return err
		}
		return l.limitUseless(l.allowed.SpendLateData(cost), "a Data for a call that is over")
	}
	if !s.window.Receive(cost) {
		return l.protocolError("the peer sent %d bytes on stream %d without credit", head.Length, head.Stream)
	}
	l.returnBytes(cost)
	return l.receiveMessage(s, head, frame.NewReader(payload), cost)
}

// receiveMessage handles a message or a part of a message.
func (l *Link) receiveMessage(s *Stream, head frame.Head, r *frame.Reader, cost int64) error {
	whole := 0
	if head.Flags&frame.Long != 0 {
		if s.incoming != nil {
			return l.protocolError("a message begins before the end of another one, on stream %d", s.id)
		}
		whole = int(min(r.Number(), maxSetting))
	}
	data := r.Rest()
	switch {
	case r.Err() != nil:
		return l.protocolError("%v", r.Err())
	case areContradictory(head.Flags), head.Flags&frame.Nothing != 0 && (len(data) > 0 || s.incoming != nil):
		return l.protocolError("a frame has contradictory flags (%#x) and %d bytes, on stream %d", byte(head.Flags), len(data), s.id)
	case head.Flags&(frame.Long|frame.More) == frame.Long && whole != len(data):
		return l.protocolError("a message has an announced length of %d, but %d bytes, on stream %d", whole, len(data), s.id)
	case s.incoming == nil && head.Flags&frame.More != 0 && head.Flags&frame.Long == 0:
		return l.protocolError("a message in several frames does not begin with its length, on stream %d", s.id)
	case max(whole, len(data)) > l.cfg.MaxMessage:
		s.peerDone = true
		l.allowed.AddLate(s.window.Left())
		l.returnStreamCredit(s, cost)
		l.handler.OnTooLong(s, max(whole, len(data)))
		return nil
	}
	if isUseless(head, len(data)) {
		if err := l.limitUseless(l.allowed.Spend(1), "a Data without a message"); err != nil {
			return err
		}
	} else {
		l.allowed.AddFrame()
	}
	if head.Flags&frame.More != 0 && s.incoming == nil {
		l.beginParts(s, data, whole)
	}
	switch {
	case s.incoming != nil:
		if err := l.receivePart(s, head, data, cost); err != nil {
			return err
		}
	case head.Flags&frame.Nothing != 0:
		l.returnStreamCredit(s, cost)
	default:
		kept := credit.Cost(len(data)) // credit to return only when the message is read
		l.returnStreamCredit(s, cost-kept)
		l.handler.OnMessage(s, Message{Data: data, Credit: kept, Last: head.Flags&frame.End != 0})
	}
	if head.Flags&frame.End != 0 && s.state != callOver {
		s.peerDone = true
		if l.cfg.Client {
			l.dropIfOver(s) // before OnEnd, because the handler may reuse the stream
		}
		l.handler.OnEnd(s)
	}
	return nil
}

// areContradictory reports whether the flags of a Request or Data frame exclude each other.
func areContradictory(f frame.Flags) bool {
	return f&frame.More != 0 && f&(frame.End|frame.Nothing) != 0 || f&frame.Nothing != 0 && f&frame.Long != 0
}

// isUseless reports whether a frame begins no call, ends nothing, and has no message or part of one.
func isUseless(head frame.Head, bytes int) bool {
	return head.Type == frame.Data && bytes == 0 && head.Flags&(frame.End|frame.Long) == 0 && head.Flags&(frame.Nothing|frame.More) != 0
}

// beginParts prepares for a message in parts. A message that may be longer than the stream's credit
// needs room, and may have to wait for room.
func (l *Link) beginParts(s *Stream, first []byte, whole int) {
	s.have, s.whole = 0, whole
	if int64(whole+(whole/credit.Turn+2)*credit.Overhead) > l.cfg.PerStream/2 {
		s.reserved = int64(whole)
		if !l.takeRoom(s.reserved) {
			l.waitingForRoom = append(l.waitingForRoom, s)
			s.waits = true
		}
	}
	s.incoming = batchio.NewBuffer(l.bufferSize(s, len(first)))
}

// maxGrowth limits the memory of a message in parts, as a multiple of the bytes that have arrived,
// because the announced length may be false.
const maxGrowth = 8

// bufferSize returns the buffer size for a message. have is the number of bytes that have arrived.
// A message that waits for room gets no more memory than its stream's credit.
func (l *Link) bufferSize(s *Stream, have int) int {
	size := min(s.whole, maxGrowth*have)
	if s.waits {
		size = min(size, max(have, int(l.cfg.PerStream)))
	}
	return size
}

// appendPart adds a part to the stream's incomplete message.
func (l *Link) appendPart(s *Stream, data []byte) {
	from := s.have
	s.have += len(data)
	if s.have > len(s.incoming.Data) {
		grown := batchio.NewBuffer(l.bufferSize(s, s.have))
		copy(grown.Data, s.incoming.Data[:from])
		s.incoming.Release()
		s.incoming = grown
	}
	copy(s.incoming.Data[from:], data)
}

func (l *Link) receivePart(s *Stream, head frame.Head, data []byte, cost int64) error {
	if s.have+len(data) > s.whole || head.Flags&frame.More == 0 && s.have+len(data) < s.whole {
		return l.protocolError("a message has an announced length of %d, but %d bytes, on stream %d", s.whole, s.have+len(data), s.id)
	}
	l.appendPart(s, data)
	more := head.Flags&frame.More != 0
	switch {
	case !s.waits && s.reserved > 0:
		l.returnStreamCredit(s, cost)
	case more:
		l.returnStreamCredit(s, cost-int64(len(data)))
	default: // the last frame's overhead counts until the message is read
		l.returnStreamCredit(s, cost-credit.Cost(len(data)))
	}
	if s.waits && more {
		s.unreturned += int64(len(data))
	}
	if more {
		return nil
	}
	m := Message{Data: s.incoming.Data, Buffer: s.incoming, Last: head.Flags&frame.End != 0}
	if s.incoming = nil; batchio.BufferSize(s.whole) > 2*s.whole { // save memory: m may stay unread
		m.Data = bytes.Clone(m.Data)
		m.Release()
	}
	if s.waits { // the stream's credit was enough for the whole message
		l.stopWaiting(s)
	}
	if s.reserved > 0 {
		s.unread += s.reserved // the room is free again when the message is read
		m.Room, s.reserved = s.reserved, 0
	} else {
		m.Credit = credit.Cost(s.whole)
	}
	l.handler.OnMessage(s, m)
	return nil
}

// takeRoom takes room for a whole message, or returns false if there is too little. It never takes
// less, so that no two messages wait for each other.
func (l *Link) takeRoom(bytes int64) bool {
	if bytes > l.room {
		return false
	}
	l.room -= bytes
	return true
}

// stopWaiting removes a stream whose message needs no room any more. Those behind it may have enough.
func (l *Link) stopWaiting(s *Stream) {
	l.waitingForRoom = slices.DeleteFunc(l.waitingForRoom, func(other *Stream) bool { return other == s })
	s.waits, s.reserved, s.unreturned = false, 0, 0
	l.returnRoom(0)
}

// returnRoom makes room free again, and gives room to waiting messages.
func (l *Link) returnRoom(bytes int64) {
	l.room += bytes
	for len(l.waitingForRoom) > 0 {
		next := l.waitingForRoom[0]
		if !l.takeRoom(next.reserved) {
			return
		}
		next.waits = false
		l.returnStreamCredit(next, next.unreturned)
		next.unreturned = 0
		l.waitingForRoom[0] = nil
		l.waitingForRoom = l.waitingForRoom[1:]
	}
}

func (l *Link) receiveStatus(head frame.Head, payload []byte) error {
	if !l.cfg.Client {
		return l.protocolError("a Status frame from a client: clients end calls with Cancel")
	}
	s := l.streams[head.Stream]
	if s == nil {
		return l.receiveLate(head)
	}
	ending, err := frame.ReadEnding(payload)
	if err != nil {
		return l.protocolError("%v", err)
	}
	l.allowed.AddFrame()
	s.peerDone = true
	l.dropIfOver(s)
	l.handler.OnStatus(s, &ending)
	return nil
}

func (l *Link) receiveCredit(head frame.Head, payload []byte) error {
	grant, err := frame.ReadGrant(payload)
	if err != nil {
		return l.protocolError("%v", err)
	}
	if head.Stream == 0 {
		l.sender.Grant(int64(grant.Bytes), int64(grant.Requests))
	} else if err := l.checkBegun(head); err != nil {
		return err
	} else if s := l.streams[head.Stream]; s != nil {
		l.sender.GrantStream(&s.send, int64(grant.Bytes))
	}
	if grant == (frame.Grant{}) {
		return l.limitUseless(l.allowed.Spend(1), "a Credit of nothing")
	}
	return l.limitUseless(l.allowed.SpendGrant(), "a Credit")
}

func (l *Link) receivePing(head frame.Head, payload []byte) error {
	if len(payload) != pingLen {
		return l.protocolError("a ping has the wrong length: %d bytes", len(payload))
	}
	if head.Flags&frame.Answer == 0 {
		l.appendFrame(frame.Head{Type: frame.Ping, Flags: frame.Answer}, payload)
		return l.limitUseless(l.allowed.Spend(1), "a Ping")
	}
	// An answer needs no handling: checkAlive reads the time of the last read.
	return l.limitUseless(l.allowed.SpendPong(), "an answer to no Ping")
}

func (l *Link) receiveGoodbye(payload []byte) error {
	if !l.cfg.Client {
		return l.protocolError("a Goodbye frame from a client: clients close the connection instead")
	}
	r := frame.NewReader(payload)
	last := r.Number()
	if r.Err() != nil {
		return l.protocolError("%v", r.Err())
	}
	if l.draining { // the server may repeat it, and each one visits all streams
		if err := l.limitUseless(l.allowed.Spend(1+len(l.streams)/64), "a second Goodbye"); err != nil {
			return err
		}
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
