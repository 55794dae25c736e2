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
	client     *Client
	method     string
	ctx        context.Context
	cancel     context.CancelFunc    // releases the timer of the method's timeout
	ended      rpccall.EndingContext // the context that Context returns
	desc       *grpc.StreamDesc
	info       callInfo
	alias      message.AliasedMemory
	gotMessage bool // the caller has received a message
	sentLast   bool // the caller has sent its last message; used only by SendMsg and CloseSend
	finishOnce sync.Once

	initial clientCall                 // the first attempt
	current atomic.Pointer[clientCall] // the latest attempt
	retryMu sync.Mutex                 // held while another attempt replaces current
	tries   retryState                 // guarded by retryMu
	stop    func() bool                // stops watching ctx; guarded by retryMu

	// The lock of the current attempt's connection guards these fields. They do not change after
	// the attempt has ended.
	sentAll bool
	sent    message.ReplayBuffer
}

var _ grpc.ClientStream = (*clientStream)(nil)

// newStream begins a streaming call. It calls cancel when the call has ended.
func (c *Client) newStream(ctx context.Context, cancel context.CancelFunc, desc *grpc.StreamDesc, method string, info callInfo) (grpc.ClientStream, error) {
	// A single response is not aliased, because no next read would release its memory.
	info.alias = c.opts.alias && desc.ServerStreams
	s := &clientStream{client: c, method: method, ctx: ctx, cancel: cancel, desc: desc, info: info}
	s.initial.initStream(s)
	s.current.Store(&s.initial)
	for {
		err := s.beginAttempt(&s.initial)
		if err == nil {
			break
		}
		if err = c.waitToRetry(ctx, &s.tries, &s.info, &attemptFailure{final: s.initial.dropped}, err); err != nil {
			s.finish(ending.FromError(err))
			return nil, err
		}
	}
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	s.stop = context.AfterFunc(ctx, func() {
		s.retryMu.Lock()
		c := s.current.Load()
		s.retryMu.Unlock()
		end := endingOf(ctx)
		c.conn.cancelCall(c, end)
		s.finish(end)
	})
	return s, nil
}

// beginAttempt opens a stream for the attempt and resends the messages of earlier attempts.
func (s *clientStream) beginAttempt(c *clientCall) (err error) {
	c.ctx = s.ctx
	if s.client.opts.stats != nil && s.info.on == nil {
		c.observer = s.client.startObserver(s.ctx, s.method, &s.info, s.desc, &s.tries)
		c.ctx = c.observer.ctx
		defer func() {
			if err != nil {
				c.observer.reportEnd(nil, err)
			}
		}()
	}
	fields, err := s.client.variableFields(c.ctx, &s.tries)
	if err != nil {
		return err
	}
	cc, err := s.client.openStream(c.ctx, c, s.method, &s.info, fields)
	if err != nil {
		return err
	}
	s.resendMessages(cc, c)
	s.current.Store(c)
	cc.Flush()
	cc.Mu.Unlock()
	c.observer.reportRequestHeader(cc, &s.info)
	return nil
}

// finish releases the call's resources and calls the callbacks for its end. It runs only once.
func (s *clientStream) finish(end ending.Ending) {
	s.finishOnce.Do(func() {
		s.retryMu.Lock()
		c, stop := s.current.Load(), s.stop
		if c.conn != nil {
			c.conn.Mu.Lock()
			s.sent.Drop()
			c.conn.Mu.Unlock()
			c.reportEnd(end.Err)
		}
		s.retryMu.Unlock()
		if stop != nil {
			stop()
		}
		s.ended.End(s.ctx)
		s.cancel()
		if c.conn != nil {
			s.info.reportResponse(c)
		}
		if end.Err == nil {
			s.info.throttle.CallSucceeded()
		}
		s.alias.EndCall()
		s.info.CallOnFinish(end.Err)
	})
}

// Context returns the call's context, with the peer. It ends when the call ends. As in grpc-go, no
// other attempt may follow.
func (s *clientStream) Context() context.Context {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	c := s.current.Load()
	c.conn.Mu.Lock()
	s.sent.Drop()
	c.conn.Mu.Unlock()
	return s.ended.Get(c.ctx, c.conn.peer)
}

// Header waits for the response's header metadata. If the call ends without metadata,
// Header returns nil, nil, as in grpc-go, and RecvMsg returns the call's error.
func (s *clientStream) Header() (metadata.MD, error) {
	for {
		c := s.current.Load()
		<-c.headers
		c.conn.Mu.Lock()
		fields, undecided, end := c.header, c.awaitsRetryDecision(), c.end
		c.conn.Mu.Unlock()
		switch {
		case fields != nil:
			return metadataOf(fields), nil
		case !undecided:
			s.finish(end)
			return nil, nil
		}
		s.retry(c)
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
	for {
		c := s.current.Load()
		cc := c.conn
		cc.Mu.Lock()
		if !c.end.Done() && !s.sentAll && s.ctx.Err() == nil {
			s.sentAll = true
			cc.h2.CloseSend(&c.h2)
			cc.Flush()
		}
		undecided := c.awaitsRetryDecision()
		cc.Mu.Unlock()
		if !undecided || !s.retry(c) {
			return nil
		}
	}
}

// SendMsg sends a message and waits until flow control allows the connection to send it. The
// caller may then reuse m. If the call has ended, it returns io.EOF, or nil if the client sends a
// single message. RecvMsg then returns the call's error.
func (s *clientStream) SendMsg(m any) error {
	var unsent error // the result when the call has ended
	if s.desc.ClientStreams {
		// Generated code for server-streaming calls returns SendMsg's error to the program, which
		// would take io.EOF for a successful end. So unsent stays nil for them.
		unsent = io.EOF
	}
	c := s.current.Load()
	c.conn.Mu.Lock()
	ended := c.end.Done() && !c.awaitsRetryDecision()
	c.conn.Mu.Unlock()
	second := s.sentLast
	s.sentLast = second || !s.desc.ClientStreams
	var b *batchio.Buffer
	var err error
	switch {
	case second:
		err = status.Error(codes.Internal, "fastgrpc: SendMsg was called after CloseSend")
	case ended || s.ctx.Err() != nil: // the AfterFunc in newStream ends a cancelled call
		return unsent
	default:
		b, err = message.Encode(s.info.codec, s.info.compressor, m, s.info.MaxSend)
	}
	if err != nil {
		end := ending.FromError(err)
		s.cancelCall(end)
		s.finish(end)
		return err
	}
	s.current.Load().observer.reportSent(m, message.SizesOf(b))
	for {
		c := s.current.Load()
		c.conn.Mu.Lock()
		if !c.end.Done() {
			return s.sendAndUnlock(c, b)
		}
		c.conn.Mu.Unlock()
		if !s.retry(c) {
			b.Release()
			return unsent
		}
	}
}

// sendAndUnlock sends a message on attempt c and unlocks the lock of its connection, which is held
// on entry.
func (s *clientStream) sendAndUnlock(c *clientCall, b *batchio.Buffer) error {
	cc := c.conn
	last := s.sentLast
	s.sentAll = s.sentAll || last
	if c.answered { // no attempt may follow
		s.sent.Drop()
	}
	s.sent.Add(b, s.info.maxReplay)
	cc.h2.SendData(&c.h2, batchio.Payload{Data: b.Data, Owner: b}, last)
	cc.Flush()
	for c.h2.Queued() && !c.end.Done() {
		cc.Mu.Unlock()
		<-c.drained
		cc.Mu.Lock()
	}
	ended, undecided := c.end.Done(), c.awaitsRetryDecision()
	cc.Mu.Unlock()
	if ended && !last && !(undecided && s.retry(c)) {
		return io.EOF
	}
	return nil
}

// RecvMsg receives a message. It returns io.EOF if the call has ended successfully, or the call's
// status if it has failed.
func (s *clientStream) RecvMsg(v any) error {
	s.alias.Release()
	m, end := s.nextMessage()
	if !end.Done() {
		if end = s.decodeMessage(&m, v); end.Kind == ending.Open || end.Kind == ending.Succeeded {
			return nil
		}
	} else if end.Kind == ending.Succeeded && !s.desc.ServerStreams && !s.gotMessage {
		end = ending.FromBadResponse(codes.Internal, "the server ended the call with OK but without a response message")
	}
	s.finish(end)
	if end.Kind == ending.Succeeded {
		return io.EOF
	}
	return end.Err
}

// decodeMessage decodes a message. If the response has a single message, it also waits for the end.
func (s *clientStream) decodeMessage(m *message.Message, v any) (end ending.Ending) {
	s.gotMessage = true
	c, info := s.current.Load(), &s.info
	c.observer.reportHeaderReceived(c)
	how := message.DecodeOptions{Limit: info.MaxReceive}
	if info.alias {
		how.Alias = &s.alias
	}
	size, err := message.Decode(info.codec, c.received, m, v, how)
	if err != nil {
		end = ending.FromError(err)
		s.abort(end)
		return end
	}
	c.observer.reportReceived(v, size)
	if s.desc.ServerStreams {
		return ending.Ending{}
	}
	if *m, end = s.nextMessage(); !end.Done() {
		m.Release()
		end = ending.FromBadResponse(codes.Internal, "the server sent more than one response message, want one")
		s.abort(end)
	} else if end.Kind == ending.Succeeded {
		s.finish(end)
	}
	return end
}

// cancelCall ends the call, unless it has already ended, and allows no other attempt.
func (s *clientStream) cancelCall(end ending.Ending) *clientCall {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	c := s.current.Load()
	c.conn.Mu.Lock()
	c.decided = true
	c.conn.Mu.Unlock()
	c.conn.cancelCall(c, end)
	return c
}

// abort ends the call and drops its unread messages.
func (s *clientStream) abort(end ending.Ending) {
	c := s.cancelCall(end)
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	c.end = end // replaces the server's status, if it has come
	c.inbox.Drop()
}

// nextMessage waits for the next message, or for the end of the call.
func (s *clientStream) nextMessage() (message.Message, ending.Ending) {
	for {
		c := s.current.Load()
		cc := c.conn
		cc.Mu.Lock()
		m, ok := c.inbox.Take()
		end, undecided := c.end, c.awaitsRetryDecision()
		if ok {
			s.sent.Drop()
		}
		switch {
		case ok && !end.Done():
			cc.h2.Consume(&c.h2, m.Credit)
			cc.Flush()
		case !ok && end.Done():
			c.inbox.DropPartial()
		}
		cc.Mu.Unlock()
		switch {
		case ok:
			return m, ending.Ending{}
		case !end.Done():
			<-c.signal
		case !undecided:
			return m, end
		default:
			s.retry(c)
		}
	}
}

// resendMessages sends the kept messages on a new attempt. Its connection's lock is held.
func (s *clientStream) resendMessages(cc *clientConn, c *clientCall) {
	for _, b := range s.sent.Messages {
		b.Retain()
		cc.h2.SendData(&c.h2, batchio.Payload{Data: b.Data, Owner: b}, false)
	}
	if s.sentAll {
		cc.h2.CloseSend(&c.h2)
	}
}

// retry makes another attempt after attempt c has failed. If no attempt may follow, it stores the
// call's final ending in c and returns false.
func (s *clientStream) retry(c *clientCall) bool {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	if s.current.Load() != c {
		return true // another goroutine has retried
	}
	var out attemptFailure
	c.conn.Mu.Lock()
	out.setFrom(c)
	out.final = s.sent.Disabled || c.decided
	err := c.end.Err
	c.conn.Mu.Unlock()
	c.reportEnd(err)
	for {
		last := err
		if err = s.client.waitToRetry(s.ctx, &s.tries, &s.info, &out, last); err != nil {
			break
		}
		next := new(clientCall)
		next.initStream(s)
		if err = s.beginAttempt(next); err == nil {
			if s.ctx.Err() != nil {
				// The context's AfterFunc may have cancelled only the previous attempt.
				next.conn.cancelCall(next, endingOf(s.ctx))
			}
			return true
		}
		out = attemptFailure{final: next.dropped}
	}
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	c.decided = true
	if err != c.end.Err { //nolint:errorlint // compares identity, not equality
		c.end = ending.FromError(err)
	}
	return false
}
