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
	"wirelab.dev/rpc/fastgrpc/internal/ending"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// A clientStream is a streaming call. It makes another attempt when a server refuses the
// call before processing it.
type clientStream struct {
	client     *Client
	method     string
	ctx        context.Context
	cancel     context.CancelFunc // ends the method's timeout
	desc       *grpc.StreamDesc
	info       callInfo
	alias      message.Aliased
	gotMessage bool // the single response of a client-streaming call has come
	finishOnce sync.Once

	initial clientCall                 // the first attempt
	current atomic.Pointer[clientCall] // the latest attempt
	retryMu sync.Mutex                 // held while another attempt replaces current
	tries   tries                      // guarded by retryMu
	stop    func() bool                // stops watching ctx; guarded by retryMu

	// Guarded by the lock of the current attempt's connection, and changed only until
	// that attempt ends.
	sentAll bool
	sent    message.ReplayBuffer
}

var _ grpc.ClientStream = (*clientStream)(nil)

// newStream begins a streaming call. cancel is called when it has ended.
func (c *Client) newStream(ctx context.Context, cancel context.CancelFunc, desc *grpc.StreamDesc, method string, info callInfo) (grpc.ClientStream, error) {
	// An aliased message is valid until the next read. A single response has none.
	info.alias = c.opts.alias && desc.ServerStreams
	s := &clientStream{client: c, method: method, ctx: ctx, cancel: cancel, desc: desc, info: info}
	s.initial.initStream(info.MaxReceive)
	s.current.Store(&s.initial)
	for {
		err := s.begin(&s.initial)
		if err == nil {
			break
		}
		if err = c.tryAgain(ctx, &s.tries, &s.info, &attemptEnd{final: s.initial.dropped}, err); err != nil {
			s.finish(ending.Failed(err))
			return nil, err
		}
	}
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	s.stop = context.AfterFunc(ctx, func() {
		s.retryMu.Lock()
		c := s.current.Load()
		s.retryMu.Unlock()
		c.conn.cancel(c, ctx.Err())
		c = s.current.Load()
		c.conn.Mu.Lock()
		end := c.end
		c.conn.Mu.Unlock()
		s.finish(end)
	})
	return s, nil
}

// begin opens an attempt and resends the messages of earlier attempts.
func (s *clientStream) begin(c *clientCall) (err error) {
	c.ctx = s.ctx
	if s.client.opts.stats != nil && s.info.on == nil {
		c.observer = s.client.observe(s.ctx, s.method, &s.info, s.desc, &s.tries)
		c.ctx = c.observer.ctx
		defer func() {
			if err != nil {
				c.observer.end(err)
			}
		}()
	}
	fields, err := s.client.callFields(c.ctx, &s.tries)
	if err != nil {
		return err
	}
	cc, err := s.client.openStream(c.ctx, c, s.method, &s.info, fields)
	if err != nil {
		return err
	}
	s.resend(cc, c)
	s.current.Store(c)
	cc.Flush()
	cc.Mu.Unlock()
	c.observer.opened(cc, &s.info)
	return nil
}

// finish frees the call's resources and runs its end-of-call callbacks, once.
func (s *clientStream) finish(end ending.Ending) {
	s.finishOnce.Do(func() {
		s.retryMu.Lock()
		c, stop := s.current.Load(), s.stop
		if c.conn != nil {
			c.conn.Mu.Lock()
			s.sent.Drop()
			c.conn.Mu.Unlock()
			c.reportDone(end.Err)
		}
		s.retryMu.Unlock()
		if stop != nil {
			stop()
		}
		s.cancel()
		if c.conn != nil {
			s.info.responded(c)
		}
		if end.Err == nil {
			s.info.throttle.Succeeded()
		}
		s.alias.End()
		s.info.Finished(end.Err)
		c.observer.end(end.Err)
	})
}

func (s *clientStream) Context() context.Context { return s.current.Load().ctx }

// Header waits for the response's header metadata. Like grpc-go's, it returns nil, nil if the call
// ended without metadata; RecvMsg returns the reason.
func (s *clientStream) Header() (metadata.MD, error) {
	for {
		c := s.current.Load()
		<-c.headers
		c.conn.Mu.Lock()
		fields, undecided, end := c.header, c.undecided(), c.end
		c.conn.Mu.Unlock()
		switch {
		case fields != nil:
			return toMetadata(fields), nil
		case !undecided:
			s.finish(end)
			return nil, nil
		}
		s.retry(c)
	}
}

// Trailer returns the response's trailer metadata; it is empty before the response ends.
func (s *clientStream) Trailer() metadata.MD {
	c := s.current.Load()
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	return toMetadata(c.trailer)
}

// CloseSend tells the server that no more messages follow. It sends nothing for a cancelled call:
// the server could still answer it with success.
func (s *clientStream) CloseSend() error {
	for {
		c := s.current.Load()
		cc := c.conn
		cc.Mu.Lock()
		if !c.end.Done() && !s.sentAll && s.ctx.Err() == nil {
			s.sentAll = true
			cc.h2.CloseSend(&c.h2)
			cc.Flush()
		}
		undecided := c.undecided()
		cc.Mu.Unlock()
		if !undecided || !s.retry(c) {
			return nil
		}
	}
}

// SendMsg sends a message and waits until flow control has let it into the connection's
// output; the caller may then reuse m. It returns io.EOF when the call has ended, or nil
// if the client sends a single message: RecvMsg returns the reason.
func (s *clientStream) SendMsg(m any) error {
	var unsent error // the result when the call has ended
	if s.desc.ClientStreams {
		// Not for a server stream: generated code would return an error of the only request, and
		// io.EOF would look like the stream's successful end.
		unsent = io.EOF
	}
	c := s.current.Load()
	c.conn.Mu.Lock()
	ended, sentAll := c.end.Done() && !c.undecided(), s.sentAll
	c.conn.Mu.Unlock()
	switch {
	case ended || s.ctx.Err() != nil: // the AfterFunc of newStream ends the call
		return unsent
	case sentAll:
		return status.Error(codes.Internal, "fastgrpc: SendMsg after CloseSend")
	}
	b, err := message.Encode(s.info.codec, s.info.compressor, m, s.info.MaxSend)
	if err != nil {
		end := ending.Failed(err)
		s.abort(end)
		s.finish(end)
		return err
	}
	s.current.Load().observer.sent(m, message.SizesOf(b))
	for {
		c := s.current.Load()
		c.conn.Mu.Lock()
		if !c.end.Done() {
			return s.send(c, b)
		}
		c.conn.Mu.Unlock()
		if !s.retry(c) {
			b.Release()
			return unsent
		}
	}
}

// send is called with the lock of the attempt's connection held, and unlocks it.
func (s *clientStream) send(c *clientCall, b *batchio.Buffer) error {
	cc := c.conn
	last := !s.desc.ClientStreams
	s.sentAll = s.sentAll || last
	if c.answered { // no other attempt follows
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
	ended, undecided := c.end.Done(), c.undecided()
	cc.Mu.Unlock()
	if ended && !last && !(undecided && s.retry(c)) {
		return io.EOF
	}
	return nil
}

// RecvMsg receives a message. It returns io.EOF when the call has succeeded, and its
// status when it has failed.
func (s *clientStream) RecvMsg(v any) error {
	s.alias.Release()
	m, end := s.nextMessage()
	if !end.Done() {
		if end = s.read(&m, v); end.Kind == ending.Open || end.Kind == ending.Succeeded {
			return nil
		}
	} else if end.Kind == ending.Succeeded && !s.desc.ServerStreams && !s.gotMessage {
		end = ending.BadResponse(codes.Internal, "response without a message")
	}
	s.finish(end)
	if end.Kind == ending.Succeeded {
		return io.EOF
	}
	return end.Err
}

// read decodes a message. If the response has only one, read also waits for the end.
func (s *clientStream) read(m *message.Message, v any) (end ending.Ending) {
	s.gotMessage = true
	c, info := s.current.Load(), &s.info
	c.observer.headerReceived(c)
	how := message.DecodeOptions{Limit: info.MaxReceive}
	if info.alias {
		how.Alias = &s.alias
	}
	size, err := message.Decode(info.codec, c.received, m, v, how)
	if err != nil {
		end = ending.Failed(err)
		s.abort(end)
		return end
	}
	c.observer.received(v, size)
	if s.desc.ServerStreams {
		return ending.Ending{}
	}
	if *m, end = s.nextMessage(); !end.Done() {
		m.Release()
		end = ending.BadResponse(codes.Internal, "more than one message in a unary response")
		s.abort(end)
	} else if end.Kind == ending.Succeeded {
		s.finish(end)
	}
	return end
}

// abort ends the call and drops its unread messages.
func (s *clientStream) abort(end ending.Ending) {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	c := s.current.Load()
	cc := c.conn
	cc.Mu.Lock()
	defer cc.Mu.Unlock()
	c.decided = true
	c.fail(end)
	c.end = end // even if the server's status has come
	c.inbox.Drop()
	cc.callsEnded()
	cc.Flush()
}

// nextMessage waits for a message, or for the end of the call.
func (s *clientStream) nextMessage() (message.Message, ending.Ending) {
	for {
		c := s.current.Load()
		cc := c.conn
		cc.Mu.Lock()
		m, ok := c.inbox.Take()
		end, undecided := c.end, c.undecided()
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

// resend sends the kept messages on a new attempt, with its connection's lock held.
func (s *clientStream) resend(cc *clientConn, c *clientCall) {
	for _, b := range s.sent.Messages {
		b.Retain()
		cc.h2.SendData(&c.h2, batchio.Payload{Data: b.Data, Owner: b}, false)
	}
	if s.sentAll {
		cc.h2.CloseSend(&c.h2)
	}
}

// retry makes another attempt after c, which has failed. It returns false if no attempt follows;
// then c has the stream's final ending.
func (s *clientStream) retry(c *clientCall) bool {
	s.retryMu.Lock()
	defer s.retryMu.Unlock()
	if s.current.Load() != c {
		return true // another goroutine has retried
	}
	var out attemptEnd
	c.conn.Mu.Lock()
	out.read(c)
	out.final = s.sent.Disabled || c.decided
	err := c.end.Err
	c.conn.Mu.Unlock()
	c.reportDone(err)
	for {
		last := err
		if err = s.client.tryAgain(s.ctx, &s.tries, &s.info, &out, last); err != nil {
			break
		}
		c.reportTrailer()
		c.observer.end(last)
		next := new(clientCall)
		next.initStream(s.info.MaxReceive)
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
	if err != c.end.Err { //nolint:errorlint // identity matters, not equality
		c.end = ending.Failed(err)
	}
	return false
}
