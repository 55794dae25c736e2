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

// slot carries one call at a time, over one connection after another.
type slot struct {
	_    [64]byte // the watch and other callers read what lies beside
	busy atomic.Bool
	// call is the stamp of the running call, idle, or the verdict of the watch on it.
	call     atomic.Uint64
	sequence uint64
	conn     *h1Conn // nil: to be opened
	_        [64]byte

	mu     sync.Mutex // guards what follows; the caller writes it, and the watch reads it
	nc     net.Conn   // of conn
	ctx    context.Context
	closed bool
}

// call is a request that began at a tick.
type call struct {
	*h1Request
	began int64
}

// A stamp is the tick at which a call began, and a number, by which the watch tells a call
// from the next one.
const sequenceBits = 20

// carry makes a call.
func (s *slot) carry(ctx context.Context, c *h1Client, call call, answer *service.Answer) error {
	again := call.again
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
			if !s.conn.told {
				s.conn.told = true
				c.answered("h1")
			}
			if call.close || !s.conn.canGoOn() {
				s.drop()
			}
			return nil
		}
		// A server may end a connection at any time between two calls.
		again = again && s.conn.told && s.conn.isFresh() && isEnd(err)
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
func (s *slot) begin(ctx context.Context, began int64) (stamp uint64) {
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

func (s *slot) end(stamp uint64) verdict {
	if s.call.CompareAndSwap(stamp, uint64(idle)) {
		return idle
	}
	return verdict(s.call.Swap(uint64(idle)))
}

// look ends the call if it is late or cancelled. The lock keeps the connection the call's.
func (s *slot) look(w *watch, now int64) {
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
func (s *slot) open(ctx context.Context, d *dialer) error {
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
func (s *slot) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.nc.Close()
	s.conn, s.nc = nil, nil
}

// shut closes the connection for good, and ends the call on it.
func (s *slot) shut() {
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
