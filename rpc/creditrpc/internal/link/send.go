package link

import (
	"encoding/binary"

	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// pump moves frames that may be sent into the output, as long as there is room. The others wait,
// so that the next stream is chosen as late as possible.
func (l *Link) pump() {
	for l.Pending() < l.limit {
		sending, bytes := l.sender.Next()
		if sending == nil {
			return
		}
		l.turn(sending.Of.(*Stream), bytes)
	}
}

// turn sends a number of bytes of a stream's message, including its head.
func (l *Link) turn(s *Stream, bytes int) {
	head := frame.Head{Length: bytes, Type: frame.Data}
	if s.state == unborn {
		head.Type = frame.Request
		l.lastID++
		s.id, s.state = l.lastID, open
		l.streams[s.id] = s
	}
	head.Stream = s.id
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
	} else {
		out.SetTail(append(out.Tail(), part...))
	}
	if !whole {
		return
	}
	if i.payload.Owner != nil {
		out.Own(i.payload.Owner) // the output may refer to earlier parts
		i.payload.Owner = nil
	}
	l.sent(s, i.end)
	if s.state != gone {
		l.advance(s)
	}
}

// sent drops the first item after it was moved into the output.
func (l *Link) sent(s *Stream, end bool) {
	s.queue[0] = item{}
	if s.queue = s.queue[1:]; end {
		s.state = closed
		l.ending++
		l.settle(s)
	}
	if len(s.queue) == 0 {
		s.queue = nil
		l.handler.OnSent(s)
	}
}

// settle forgets a stream whose call is over: at a server when the answer is in the output, at a
// client when the answer has come.
func (l *Link) settle(s *Stream) {
	over := s.state == closed
	if l.cfg.Client {
		over = s.peerDone
	}
	if over {
		l.drop(s) // later frames from the other end are ignored
	}
}

// drop forgets a stream. It releases the stream's unsent payloads, and returns its credit.
func (l *Link) drop(s *Stream) {
	l.sender.Cancel(&s.send)
	for i := range s.queue {
		if owner := s.queue[i].payload.Owner; owner != nil {
			if s.state == unborn {
				owner.Release()
			} else {
				l.output().Own(owner) // the output may refer to a part of it
			}
		}
		s.queue[i] = item{}
	}
	s.queue = nil
	if s.id != 0 {
		delete(l.streams, s.id)
	}
	if s.incoming != nil {
		s.incoming.Release()
		s.incoming = nil
	}
	if room := s.unread; s.reserved > 0 || room > 0 {
		if !s.waits {
			room += s.reserved
		}
		s.unread, s.reserved, s.waits = 0, 0, false
		l.returnRoom(room)
	}
	s.state = gone
	l.Took(s)
	if s.released {
		s.released = false
		l.returnCall()
	}
}

// Took returns the connection's credit that the stream's messages held.
func (l *Link) Took(s *Stream) {
	held := s.held
	s.held = 0
	l.take(held)
}

func (l *Link) take(bytes int64) {
	l.grant(0, frame.Grant{Bytes: uint64(l.window.Take(bytes))})
}

// Read returns the credit and room of a message that has been read.
func (l *Link) Read(s *Stream, m Message) {
	l.returned(s, m.Credit)
	if room := min(m.Room, s.unread); room > 0 { // 0 after the stream was dropped
		s.unread -= room
		l.returnRoom(room)
	}
}

func (l *Link) returned(s *Stream, cost int64) {
	if grant := s.window.Take(cost); s.state != gone && !s.peerDone {
		l.grant(s.id, frame.Grant{Bytes: uint64(grant)})
	}
}

// Release returns the credit of a call when its handler has returned and its answer is in the
// output; servers only. So a client that cancels calls begins no more calls than handlers end. A
// client that reads no answers makes the server keep one answer per call at most.
func (l *Link) Release(s *Stream) {
	l.Took(s)
	if s.state != gone {
		s.released = true
		return
	}
	l.returnCall()
}

func (l *Link) returnCall() { l.grant(0, frame.Grant{Requests: uint64(l.calls.Take(1))}) }

const pingLen = 8

// Ping sends a ping, which the peer answers.
func (l *Link) Ping() { l.append(frame.Head{Type: frame.Ping}, make([]byte, pingLen)) }

// Goodbye tells the peer that this end accepts no more calls than those begun.
func (l *Link) Goodbye() {
	if l.draining {
		return
	}
	l.draining = true
	l.append(frame.Head{Type: frame.Goodbye}, binary.AppendUvarint(nil, uint64(l.lastID)))
}
