package fastgrpc

import (
	"errors"

	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// errRefused stands for the end of an attempt that may be made again.
var errRefused = errors.New("fastgrpc: the server did nothing for the call")

// refused reports whether the server promises that it did nothing for the call, with
// the lock of its connection held.
func (c *call) refused() bool { return c.ended && c.unprocessed && !c.gotHeader }

// replay is what has been sent on a stream, kept while the server may yet refuse it.
type replay struct {
	messages []*buffer
	size     int
	over     bool // nothing is kept any more, so the stream cannot be repeated
}

// maxReplay bounds what a stream keeps; it is grpc-go's bound.
const maxReplay = 256 << 10

// keep adds a message that is about to be sent, unless the server has begun.
func (r *replay) keep(c *call, b *buffer) {
	if r.size += len(b.data); c.gotHeader || r.size > maxReplay {
		r.drop()
	}
	if !r.over {
		b.retain()
		r.messages = append(r.messages, b)
	}
}

func (r *replay) drop() {
	for _, b := range r.messages {
		b.Release()
	}
	r.messages, r.over = nil, true
}

// resend sends on a fresh attempt what has been sent before, with its lock held.
func (s *clientStream) resend(cc *clientConn, c *call) {
	for _, b := range s.sent.messages {
		b.retain()
		cc.h2.SendData(&c.h2, h2.Payload{Data: b.data, Owner: b}, false)
	}
	if s.sentAll {
		cc.h2.CloseSend(&c.h2)
	}
}

// retry makes the stream again after the attempt c, which has been refused. False
// means that c was the last one; then it has its final status.
func (s *clientStream) retry(c *call) bool {
	s.again.Lock()
	defer s.again.Unlock()
	if s.current.Load() != c {
		return true // somebody has made another
	}
	c.conn.mu.Lock()
	may := c.refused() && !s.sent.over && s.retries < maxTransparentRetries
	if !may {
		c.unprocessed = false
	}
	c.conn.mu.Unlock()
	if !may {
		return false
	}
	s.retries++
	next := new(call)
	next.beStream(&s.info)
	if err := s.begin(next); err != nil {
		c.conn.mu.Lock()
		c.status, c.cause, c.unprocessed = status.Convert(err), nil, false
		c.conn.mu.Unlock()
		return false
	}
	if err := s.ctx.Err(); err != nil {
		// Whoever watches over the context may have missed this attempt.
		next.conn.cancel(next, err)
	}
	return true
}
