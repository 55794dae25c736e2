package fastgrpc

import "wirelab.dev/rpc/batchio"

// undecided reports whether a stream's attempt has failed without an answer, and nobody
// has decided yet whether there is another one. The connection's lock is held.
func (c *clientCall) undecided() bool {
	return c.end.done() && c.end.kind != succeeded && !c.answered && !c.decided
}

// replayBuffer keeps the messages sent on a stream while there may be another attempt.
type replayBuffer struct {
	messages []*batchio.Buffer
	pack     *batchio.Buffer // the last of messages, if it holds copies of several short ones
	size     int
	disabled bool // messages have been dropped, so the stream cannot be retried
}

// maxReplay bounds the bytes that a stream keeps, unless MaxRetryRPCBufferSize says
// otherwise. The value is grpc-go's.
const maxReplay = 256 << 10

// add keeps a message that is about to be sent, unless the server has responded or the
// stream has sent too much.
func (r *replayBuffer) add(c *clientCall, b *batchio.Buffer, limit int) {
	if r.size += len(b.Data); c.answered || r.size > limit {
		r.drop()
	}
	switch {
	case r.disabled:
	case len(r.messages) == 0 || len(b.Data) >= minAliasLen:
		b.Retain()
		r.messages = append(r.messages, b)
		r.pack = nil
	default:
		r.copy(b.Data)
	}
}

// copy keeps a short message with others, as a buffer each would cost far more.
func (r *replayBuffer) copy(data []byte) {
	if r.pack == nil || cap(r.pack.Data)-len(r.pack.Data) < len(data) {
		size := len(data)
		if r.pack != nil {
			size = max(size, min(packSize, packGrowth*cap(r.pack.Data)))
		}
		r.pack = batchio.NewBuffer(size)
		r.pack.Data = r.pack.Data[:0]
		r.messages = append(r.messages, r.pack)
	}
	r.pack.Data = append(r.pack.Data, data...)
}

func (r *replayBuffer) drop() {
	for _, b := range r.messages {
		b.Release()
	}
	r.messages, r.pack, r.disabled = nil, nil, true
}

// resend sends the kept messages on a new attempt, with its connection's lock held.
func (s *clientStream) resend(cc *clientConn, c *clientCall) {
	for _, b := range s.sent.messages {
		b.Retain()
		cc.h2.SendData(&c.h2, batchio.Payload{Data: b.Data, Owner: b}, false)
	}
	if s.sentAll {
		cc.h2.CloseSend(&c.h2)
	}
}

// retry makes another attempt after c, which has failed. It returns false if there is
// none; then c has the stream's final ending.
func (s *clientStream) retry(c *clientCall) bool {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	if s.current.Load() != c {
		return true // another goroutine has retried
	}
	var out attemptEnd
	c.conn.Mu.Lock()
	out.read(c)
	out.final = s.sent.disabled || c.decided
	err := c.end.err
	c.conn.Mu.Unlock()
	c.reportDone(err)
	for {
		last := err
		if err = s.tries.next(s.ctx, s.client, &s.info, &out, last); err != nil {
			break
		}
		c.reportTrailer()
		c.observer.end(last)
		next := new(clientCall)
		next.initStream(&s.info)
		if err = s.begin(next); err == nil {
			if ended := s.ctx.Err(); ended != nil {
				// The context's AfterFunc may have cancelled only the previous attempt.
				next.conn.cancel(next, ended)
			}
			return true
		}
		out = attemptEnd{final: next.dropped}
	}
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	c.decided = true
	if err != c.end.err { //nolint:errorlint // whether it is the same one
		c.end = endAbandoned(err)
	}
	return false
}
