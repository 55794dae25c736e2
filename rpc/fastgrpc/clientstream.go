package fastgrpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/ending"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// A clientStream is a streaming call. If the server has not processed an attempt, or if the retry
// policy allows it, the clientStream makes another attempt.
type clientStream struct {
	invocation
	ended      rpccall.EndingContext // the context that Context returns
	alias      message.AliasedMemory
	gotMessage bool // the caller has received a message
	sentLast   bool // the caller has sent its last message; used only by SendMsg and CloseSend
	finishOnce sync.Once

	initial clientCall                 // the first attempt
	current atomic.Pointer[clientCall] // the latest attempt that has a stream
	retryMu sync.Mutex                 // held while another attempt replaces current
	stop    func() bool                // stops watching ctx; guarded by retryMu

	// The lock of the current attempt's connection guards these fields. They do not change after
	// the attempt has ended.
	sentAll bool
	sent    message.ReplayBuffer
}

var _ grpc.ClientStream = (*clientStream)(nil)

// start begins the call.
func (s *clientStream) start(ctx context.Context, options ...[]grpc.CallOption) (grpc.ClientStream, error) {
	s.retryMu.Lock() // a call that ends at once waits until stop is set
	defer s.retryMu.Unlock()
	c := &s.initial
	c.stream = s
	if s.client.opts.alias && s.desc.ServerStreams {
		s.info.alias = &s.alias // no next read would release the memory of a single response
	}
	err := s.prepare(ctx, options...)
	if err == nil {
		c, err = s.retryAfter(c, s.attempt(c))
	}
	if err != nil {
		s.end(c, err)
		return nil, err
	}
	s.stop = context.AfterFunc(s.ctx, func() { s.fail(endingOf(s.ctx)) })
	return s, nil
}

// resume makes c the latest attempt, and sends on it what earlier attempts have sent. The lock of
// its connection is held.
func (s *clientStream) resume(c *clientCall) {
	for _, b := range s.sent.Messages {
		b.Retain()
		c.conn.h2.SendData(&c.h2, batchio.Payload{Data: b.Data, Owner: b}, false)
	}
	if s.sentAll {
		c.conn.h2.CloseSend(&c.h2)
	}
	s.current.Store(c)
	c.conn.Flush()
}

// lockAttempt returns the latest attempt, with its connection's lock held. If the attempt has
// failed, lockAttempt first makes other attempts, if they may follow.
func (s *clientStream) lockAttempt() *clientCall {
	for {
		c := s.current.Load()
		c.conn.Mu.Lock()
		if !c.awaitsRetryDecision() {
			return c
		}
		c.conn.Mu.Unlock()
		s.retry(c)
	}
}

// retry makes other attempts after attempt c, if c has failed and they may follow. If c stays the
// latest attempt, retry returns false, and c has the call's final ending.
func (s *clientStream) retry(c *clientCall) bool {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	if s.current.Load() != c {
		return true // another goroutine has retried
	}
	c.conn.Mu.Lock()
	undecided, err := c.awaitsRetryDecision(), c.end.Err
	c.conn.Mu.Unlock()
	if !undecided {
		return false
	}
	if _, err = s.retryAfter(c, err); err == nil {
		return true
	}
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	c.committed, c.end = true, ending.FromError(err)
	return false
}

// commit returns the latest attempt. No other attempt may follow.
func (s *clientStream) commit() *clientCall {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	c := s.current.Load()
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	c.committed = true
	s.sent.Drop()
	return c
}

// finish releases the call's resources and reports its end. It runs only once.
func (s *clientStream) finish(end ending.Ending) {
	s.finishOnce.Do(func() {
		c := s.commit()
		s.stop()
		s.ended.End(s.ctx)
		s.alias.EndCall()
		s.end(c, end.Err)
	})
}

// fail ends the call with an error of this end, unless the call has already ended. Its unread
// messages can still be read.
func (s *clientStream) fail(end ending.Ending) {
	c := s.commit()
	c.conn.cancelCall(c, end)
	s.finish(end)
}

// Context returns the call's context, with the peer. It ends when the call ends. As in grpc-go, no
// other attempt may follow.
func (s *clientStream) Context() context.Context {
	c := s.commit()
	return s.ended.Get(c.ctx, c.conn.peer)
}

// Header waits for the response's header metadata. If the call ends without metadata,
// Header returns nil, nil, as in grpc-go, and RecvMsg returns the call's error.
func (s *clientStream) Header() (metadata.MD, error) {
	for {
		c := s.lockAttempt()
		fields, end := c.header, c.end
		c.conn.Mu.Unlock()
		switch {
		case fields != nil:
			return metadataOf(fields), nil
		case end.Done():
			s.finish(end)
			return nil, nil
		}
		<-c.headers
	}
}

// Trailer returns the response's trailer metadata, which is empty before the response ends.
func (s *clientStream) Trailer() metadata.MD {
	c := s.current.Load()
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	return metadataOf(c.trailer)
}

// CloseSend tells the server that no more messages follow. If the call is cancelled, it sends
// nothing: otherwise the server might still answer the incomplete request with success.
func (s *clientStream) CloseSend() error {
	s.sentLast = true
	c := s.lockAttempt()
	defer c.conn.Mu.Unlock()
	if !c.end.Done() && !s.sentAll && s.ctx.Err() == nil {
		s.sentAll = true
		c.conn.h2.CloseSend(&c.h2)
		c.conn.Flush()
	}
	return nil
}

// SendMsg sends a message and waits until flow control allows the connection to send it. The
// caller may then reuse m. If the call has ended, it returns io.EOF, or nil if the client sends a
// single message. RecvMsg then returns the call's error.
func (s *clientStream) SendMsg(m any) error {
	last := !s.desc.ClientStreams
	unsent := io.EOF // the result when the call has ended
	if last {
		// Generated code for server-streaming calls returns SendMsg's error to the program, which
		// would take io.EOF for a successful end.
		unsent = nil
	}
	var b *batchio.Buffer
	var err error
	if s.sentLast {
		err = status.Error(codes.Internal, "fastgrpc: SendMsg was called after CloseSend")
	} else {
		b, err = message.Encode(s.info.codec, s.info.compressor, m, s.info.MaxSend)
	}
	s.sentLast = s.sentLast || last
	if err != nil {
		s.fail(ending.FromError(err))
		return err
	}
	size := message.SizesOf(b)
	c := s.lockAttempt()
	cc := c.conn
	if c.end.Done() || s.ctx.Err() != nil { // the AfterFunc in start ends a cancelled call
		cc.Mu.Unlock()
		b.Release()
		return unsent
	}
	s.sent.Add(b, s.info.maxReplay)
	c.committed, s.sentAll = s.sent.Disabled, last
	cc.h2.SendData(&c.h2, batchio.Payload{Data: b.Data, Owner: b}, last)
	cc.Flush()
	for c.h2.Queued() && !c.end.Done() {
		cc.Mu.Unlock()
		<-c.drained
		cc.Mu.Lock()
	}
	ended := c.end.Done()
	cc.Mu.Unlock()
	c.observer.reportSent(m, size)
	if ended && !last && !s.retry(c) {
		return unsent
	}
	return nil
}

// RecvMsg receives a message. It returns io.EOF if the call has ended successfully, or the call's
// status if it has failed.
func (s *clientStream) RecvMsg(v any) error {
	s.alias.Release()
	c, m, end := s.nextMessage()
	switch {
	case !end.Done():
		err := s.decode(c, &m, v)
		if err == nil {
			s.gotMessage = true
			if !s.desc.ServerStreams {
				s.finish(ending.Ending{Kind: ending.Succeeded})
			}
			return nil
		}
		end = ending.FromError(err)
		s.fail(end)
		c.conn.Mu.Lock()
		c.end = end // replaces the server's status, if it has come
		c.inbox.Drop()
		c.conn.Mu.Unlock()
	case end.Kind == ending.Succeeded && !s.desc.ServerStreams && !s.gotMessage:
		end = ending.FromError(errNoReply)
	}
	s.finish(end)
	if end.Kind == ending.Succeeded {
		return io.EOF
	}
	return end.Err
}

// nextMessage waits for the next message, or for the end of the call. A single response counts only
// if the call succeeds.
func (s *clientStream) nextMessage() (*clientCall, message.Message, ending.Ending) {
	for {
		c := s.lockAttempt()
		var m message.Message
		end, ok := c.end, false
		if s.desc.ServerStreams || end.Kind == ending.Succeeded {
			m, ok = c.inbox.Take()
		}
		switch {
		case ok && !end.Done():
			c.conn.h2.Consume(&c.h2, m.Credit)
			c.conn.Flush()
		case !ok && end.Done():
			c.inbox.Drop()
		}
		c.conn.Mu.Unlock()
		switch {
		case ok:
			return c, m, ending.Ending{}
		case end.Done():
			return c, m, end
		}
		<-c.signal
	}
}
