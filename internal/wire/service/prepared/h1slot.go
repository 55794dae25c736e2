package prepared

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"wirelab.dev/internal/wire/service"
)

// An h1Slot carries one call at a time, over one connection after another.
type h1Slot struct {
	_    [64]byte // the watch and other callers read the neighbouring memory
	busy atomic.Bool
	// call is the stamp of the running call, idle, or the verdict of the watch on it.
	call     atomic.Uint64
	sequence uint64
	conn     *h1Conn // nil if it must be opened
	_        [64]byte

	mu     sync.Mutex // guards the fields below, which the caller writes and the watch reads
	nc     net.Conn   // of conn
	ctx    context.Context
	closed bool
}

// A call is a request and the tick at which its call began.
type call struct {
	*h1Request
	began int64
}

// A stamp holds the tick at which a call began, and a sequence number of sequenceBits bits,
// which distinguishes a call from the next one.
const sequenceBits = 20

// carry makes a call on the slot's connection, which it opens if needed.
func (s *h1Slot) carry(ctx context.Context, c *h1Client, call call, answer *service.Answer) error {
	again := call.repeatable
	for {
		if s.conn == nil {
			again = false
			if err := s.open(ctx, c.dialer); err != nil {
				return err
			}
		}
		stamp := s.begin(ctx, call.began)
		err := s.conn.exchange(call.h1Request)
		if verdict := s.end(stamp); verdict != idle {
			s.drop()
			return c.watch.err(ctx, verdict)
		}
		if err == nil {
			answer.Status, answer.Bytes = s.conn.parser.Status, s.conn.parser.Bytes
			if !s.conn.answered {
				s.conn.answered = true
				c.answered("h1")
			}
			if call.close || !s.conn.canGoOn() {
				s.drop()
			}
			return nil
		}
		// A server may end a connection at any time between two calls.
		again = again && s.conn.answered && s.conn.isFresh() && isEnd(err)
		s.drop()
		if !again {
			return err
		}
	}
}

func isEnd(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// begin lets the watch see the call.
func (s *h1Slot) begin(ctx context.Context, began int64) (stamp uint64) {
	if s.ctx != ctx {
		s.mu.Lock()
		s.ctx = ctx
		s.mu.Unlock()
	}
	s.sequence++
	stamp = uint64(began)<<sequenceBits | s.sequence&(1<<sequenceBits-1)
	s.call.Store(stamp)
	return stamp
}

func (s *h1Slot) end(stamp uint64) verdict {
	if s.call.CompareAndSwap(stamp, uint64(idle)) {
		return idle
	}
	return verdict(s.call.Swap(uint64(idle)))
}

// look ends the call if it is late or cancelled. The lock keeps the connection the call's.
func (s *h1Slot) look(w *watch, now int64) {
	stamp := s.call.Load()
	if stamp < uint64(verdicts) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	why := w.judge(s.ctx, int64(stamp>>sequenceBits), now)
	if why != idle && s.call.CompareAndSwap(stamp, uint64(why)) {
		_ = s.nc.SetDeadline(time.Unix(1, 0)) // long past
	}
}

// open opens the slot's connection.
func (s *h1Slot) open(ctx context.Context, d *dialer) error {
	nc, err := d.dial(ctx)
	if err != nil {
		return err
	}
	conn, err := newH1Conn(nc, &s.call)
	if err != nil {
		_ = nc.Close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return errClosed
	}
	s.conn, s.nc = conn, nc
	return nil
}

// drop closes the connection; the next call opens another.
func (s *h1Slot) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.nc.Close()
	s.conn, s.nc = nil, nil
}

// shut closes the connection for good, and ends the call on it.
func (s *h1Slot) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if stamp := s.call.Load(); stamp >= uint64(verdicts) {
		s.call.CompareAndSwap(stamp, uint64(shut))
	}
	if s.nc != nil {
		_ = s.nc.Close()
	}
}
