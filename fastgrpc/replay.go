package fastgrpc

import "wirelab.dev/fastgrpc/internal/h2"

// refused reports whether the server refused the call before processing it. The
// connection's lock is held.
func (c *call) refused() bool { return c.end.done() && c.unprocessed && !c.gotHeader }

// replayBuffer keeps the messages sent on a stream while the server may still refuse it.
type replayBuffer struct {
	messages []*buffer
	size     int
	disabled bool // messages have been dropped, so the stream cannot be retried
}

// maxReplay bounds the bytes that a stream keeps. The value is grpc-go's.
const maxReplay = 256 << 10

// add keeps a message that is about to be sent, unless the server has responded or the
// stream has sent too much.
func (r *replayBuffer) add(c *call, b *buffer) {
	if r.size += len(b.data); c.gotHeader || r.size > maxReplay {
		r.drop()
	}
	if !r.disabled {
		b.retain()
		r.messages = append(r.messages, b)
	}
}

func (r *replayBuffer) drop() {
	for _, b := range r.messages {
		b.Release()
	}
	r.messages, r.disabled = nil, true
}

// resend sends the kept messages on a new attempt, with its connection's lock held.
func (s *clientStream) resend(cc *clientConn, c *call) {
	for _, b := range s.sent.messages {
		b.retain()
		cc.h2.SendData(&c.h2, h2.Payload{Data: b.data, Owner: b}, false)
	}
	if s.sentAll {
		cc.h2.CloseSend(&c.h2)
	}
}

// retry makes another attempt after c, which has been refused. It returns false if no
// more are allowed; then c has its final status.
func (s *clientStream) retry(c *call) bool {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	if s.current.Load() != c {
		return true // another goroutine has retried
	}
	c.conn.mu.Lock()
	canRetry := c.refused() && !s.sent.disabled && s.retries < maxTransparentRetries
	if !canRetry {
		c.unprocessed = false
	}
	c.conn.mu.Unlock()
	if !canRetry {
		return false
	}
	s.retries++
	next := new(call)
	next.initStream(&s.info)
	if err := s.begin(next); err != nil {
		c.conn.mu.Lock()
		c.end, c.unprocessed = endAbandoned(err), false
		c.conn.mu.Unlock()
		return false
	}
	if err := s.ctx.Err(); err != nil {
		// The context's AfterFunc may have cancelled only the previous attempt.
		next.conn.cancel(next, err)
	}
	return true
}
