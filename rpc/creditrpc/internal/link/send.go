package link

import (
	"encoding/binary"

	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// fillOutput moves frames that may be sent into the output, as long as the output has room. Other
// frames wait, so that the next stream is chosen as late as possible.
func (l *Link) fillOutput() {
	for l.Pending() < l.limit {
		sending, bytes := l.sender.Next()
		if sending == nil {
			return
		}
		l.sendTurn(sending.Of.(*Stream), bytes)
	}
}

// sendTurn sends a frame with this number of bytes from the stream's head and message.
func (l *Link) sendTurn(s *Stream, bytes int) {
	head := frame.Head{Length: bytes, Type: frame.Data}
	if s.state == notBegun {
		head.Type = frame.Request
		l.lastID++
		s.id, s.state = l.lastID, isOpen
		l.streams[s.id] = s
	}
	head.Stream = s.id
	l.allowed.AddSent(bytes)
	i := &s.queue[0]
	part := i.left[:bytes-len(s.head)]
	i.left = i.left[len(part):]
	whole := len(i.left) == 0
	switch {
	case i.nothing:
		head.Flags |= frame.Nothing
	case !whole:
		head.Flags |= frame.More
	}
	if i.long {
		head.Flags |= frame.Long
		i.long = false
	}
	if whole && i.end {
		head.Flags |= frame.End
	}
	out := l.output()
	out.SetTail(append(head.Append(out.Tail()), s.head...))
	s.head = nil
	if n := l.cfg.MinReference; n > 0 && len(part) >= n {
		out.Reference(part)
		if i.payload.Owner != nil { // an output has its own references, so that drop need not wait for it
			i.payload.Owner.Retain()
			out.AddOwner(i.payload.Owner)
		}
	} else {
		out.SetTail(append(out.Tail(), part...))
	}
	if !whole {
		return
	}
	i.payload.Release()
	l.removeSent(s, i.end)
	if s.state != callOver {
		l.advance(s)
	}
}

// removeSent drops the first item of the queue, which has been moved into the output.
func (l *Link) removeSent(s *Stream, end bool) {
	s.queue[0] = sendItem{}
	if s.queue = s.queue[1:]; end {
		s.state = sendClosed
		l.ending++
		l.dropIfOver(s)
	}
	if len(s.queue) == 0 {
		s.queue = nil
		l.handler.OnSent(s)
	}
}

// dropIfOver drops a stream whose call is over. On a server, a call is over when the answer is in
// the output. On a client, it is over when the answer has come.
func (l *Link) dropIfOver(s *Stream) {
	over := s.state == sendClosed
	if l.cfg.Client {
		over = s.peerDone
	}
	if over {
		l.drop(s) // later frames from the peer are ignored
	}
}

// drop removes a stream from the link. It releases the unsent payloads, and returns the credit.
func (l *Link) drop(s *Stream) {
	l.sender.Cancel(&s.send)
	for i := range s.queue {
		s.queue[i].payload.Release()
		s.queue[i] = sendItem{}
	}
	s.queue = nil
	if s.id != 0 {
		delete(l.streams, s.id)
		left := s.window.Left()
		if s.peerDone {
			left = 0 // its Data has all come, or was allowed before
		}
		l.allowed.AddLate(left)
	}
	if s.incoming != nil {
		s.incoming.Release()
		s.incoming = nil
	}
	room := s.unread
	if s.unread = 0; s.waits {
		l.stopWaiting(s)
	} else {
		room += s.reserved
		s.reserved = 0
	}
	if room > 0 {
		l.returnRoom(room)
	}
	s.state = callOver
	l.ReturnHeld(s)
	if s.released {
		s.released = false
		l.returnCall()
	}
}

// ReturnHeld returns the connection's credit that the stream's request holds.
func (l *Link) ReturnHeld(s *Stream) {
	held := s.held
	s.held = 0
	l.returnBytes(held)
}

func (l *Link) returnBytes(bytes int64) {
	l.sendGrant(0, frame.Grant{Bytes: uint64(l.window.Take(bytes))})
}

// MessageRead returns the credit and room of a message that has been read.
func (l *Link) MessageRead(s *Stream, m Message) {
	l.returnStreamCredit(s, m.Credit)
	if room := min(m.Room, s.unread); room > 0 { // no room is left after the stream was dropped
		s.unread -= room
		l.returnRoom(room)
	}
}

func (l *Link) returnStreamCredit(s *Stream, cost int64) {
	if grant := s.window.Take(cost); s.state != callOver && !s.peerDone {
		l.sendGrant(s.id, frame.Grant{Bytes: uint64(grant)})
	}
}

// Release returns the credit of a call when its handler has returned and its answer is in the
// output; servers only. So a client cannot begin calls faster than handlers end, even if it cancels
// calls. If a client reads no answers, the server keeps at most one answer per call.
func (l *Link) Release(s *Stream) {
	l.ReturnHeld(s)
	if s.state != callOver {
		s.released = true
		return
	}
	l.returnCall()
}

func (l *Link) returnCall() { l.sendGrant(0, frame.Grant{Requests: uint64(l.calls.Take(1))}) }

const pingLen = 8

// Ping sends a ping, which the peer answers.
func (l *Link) Ping() {
	l.allowed.AddPing()
	l.appendFrame(frame.Head{Type: frame.Ping}, make([]byte, pingLen))
}

// Goodbye tells the peer that this end accepts no new calls.
func (l *Link) Goodbye() {
	if l.draining {
		return
	}
	l.draining = true
	l.appendFrame(frame.Head{Type: frame.Goodbye}, binary.AppendUvarint(nil, uint64(l.lastID)))
}
