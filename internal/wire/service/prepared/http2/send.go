package http2

import (
	"encoding/binary"
	"math"
	"slices"

	"golang.org/x/net/http2"
)

// lastID is the last number that is given to a stream. Calls after that need another
// connection.
const lastID = math.MaxInt32 - 1<<20

// quantum is how many bytes of a body a stream sends before the next one's turn.
const quantum = 64 << 10

// Start sends a request, or lets it wait until the server takes more streams. With an
// error, which is ErrNotSent, the stream stays the caller's.
func (m *Machine) Start(s *Stream, r *Request) error {
	if m.nextID > lastID {
		m.closing = true
		m.dropWaiting()
	}
	if m.closing {
		return ErrNotSent
	}
	s.begin(r)
	if m.open >= m.peer.maxStreams || len(m.waiting) > 0 {
		s.state = waiting
		m.waiting = append(m.waiting, s)
		return nil
	}
	m.send(s)
	return nil
}

// startWaiting sends the requests that the server now takes.
func (m *Machine) startWaiting() {
	for len(m.waiting) > 0 && m.open < m.peer.maxStreams {
		if m.nextID > lastID {
			m.closing = true
			m.dropWaiting()
			return
		}
		s := m.waiting[0]
		m.waiting = slices.Delete(m.waiting, 0, 1)
		m.send(s)
	}
}

func (m *Machine) send(s *Stream) {
	m.enter(s)
	m.earn(creditPerCall)
	s.state, s.window = running, m.peer.window
	r, out := s.request, m.output()
	tail := out.Tail()
	if n := int64(len(r.body)); m.began && len(r.frames) > 0 && n <= m.sendWindow && n <= s.window && len(m.senders) == 0 && out.Len() < m.limit {
		at := len(tail)
		tail = append(tail, r.frames...)
		for _, id := range r.ids {
			binary.BigEndian.PutUint32(tail[at+id:], s.id)
		}
		out.SetTail(tail)
		m.sendWindow -= n
		s.window -= n
		m.ending++
		return
	}
	var prefix []byte
	if !m.began {
		prefix, m.began = []byte{noTable}, true
	}
	out.SetTail(r.appendHeader(tail, s.id, prefix))
	if s.unsent = r.body; len(s.unsent) == 0 {
		m.ending++
		return
	}
	m.schedule(s)
	m.sendBodies()
}

// enter gives the stream a number and a place.
func (m *Machine) enter(s *Stream) {
	if 2*m.open >= len(m.table) {
		larger := make([]*Stream, 2*len(m.table))
		for _, s := range m.table {
			if s != nil {
				larger[int(s.id>>1)&(len(larger)-1)] = s
			}
		}
		m.table = larger
	}
	for {
		s.id = m.nextID
		m.nextID += 2
		if place := &m.table[int(s.id>>1)&(len(m.table)-1)]; *place == nil {
			*place = s
			m.open++
			return
		}
	}
}

// find returns the open stream of a number, or nil.
func (m *Machine) find(id uint32) *Stream {
	if s := m.table[int(id>>1)&(len(m.table)-1)]; s != nil && s.id == id {
		return s
	}
	return nil
}

// close takes a stream out of the table, and lets another one start.
func (m *Machine) close(s *Stream, err error) {
	m.table[int(s.id>>1)&(len(m.table)-1)] = nil
	m.open--
	m.unschedule(s)
	m.end(s, err)
	if len(m.waiting) > 0 {
		m.startWaiting()
	}
}

// Cancel ends a stream that has not ended.
func (m *Machine) Cancel(s *Stream, err error) {
	if s.state == waiting {
		m.waiting = slices.DeleteFunc(m.waiting, func(other *Stream) bool { return other == s })
		m.end(s, err)
		return
	}
	out := m.output()
	out.SetTail(appendNumber(out.Tail(), frame{kind: http2.FrameRSTStream, id: s.id}, uint32(http2.ErrCodeCancel)))
	m.earn(creditPerCancel)
	m.close(s, err)
}

// schedule lets a stream send in its turn, if its window allows it.
func (m *Machine) schedule(s *Stream) {
	if !s.queued && len(s.unsent) > 0 && s.window > 0 {
		s.queued = true
		m.senders = append(m.senders, s)
	}
}

func (m *Machine) unschedule(s *Stream) {
	if s.queued {
		s.queued = false
		m.senders = slices.DeleteFunc(m.senders, func(other *Stream) bool { return other == s })
	}
}

// sendBodies lets streams send in turn while the connection's window and the output's
// limit allow it.
func (m *Machine) sendBodies() {
	for len(m.senders) > 0 && m.sendWindow > 0 && m.Pending() < m.limit {
		s := m.senders[0]
		m.senders = slices.Delete(m.senders, 0, 1)
		s.queued = false
		for sent := 0; sent < quantum && len(s.unsent) > 0; {
			n := int(min(int64(len(s.unsent)), int64(m.peer.maxFrame), s.window, m.sendWindow, quantum))
			if n <= 0 {
				break
			}
			m.sendData(s, n)
			sent += n
		}
		m.schedule(s)
	}
}

func (m *Machine) sendData(s *Stream, n int) {
	data := s.unsent[:n]
	s.unsent = s.unsent[n:]
	s.window -= int64(n)
	m.sendWindow -= int64(n)
	m.earn(creditPerCall + n/bytesPerCredit)
	f := frame{length: n, kind: http2.FrameData, id: s.id}
	if len(s.unsent) == 0 {
		f.flags = http2.FlagDataEndStream
		m.ending++
	}
	out := m.output()
	if m.config.MinReference > 0 && n >= m.config.MinReference {
		out.SetTail(appendFrame(out.Tail(), f))
		out.Reference(data)
		return
	}
	out.SetTail(append(appendFrame(out.Tail(), f), data...))
}
