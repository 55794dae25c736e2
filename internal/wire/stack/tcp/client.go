package tcp

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	rpccall "wirelab.dev/rpc/call"
)

// client lets its calls share connections. A running call uses one connection. Other calls wait in
// order.
type client struct {
	*stack.Connector
	settings settings
	clock    *stack.FirstByte // times the client's only call; nil if connections are kept

	// free holds the unused connections. A call that receives nil opens a connection.
	free   chan *clientConn
	closed chan struct{}

	mu   sync.Mutex
	open map[*clientConn]struct{}
}

func (c *client) start(ctx context.Context, connections int) (stack.Client, error) {
	c.free = make(chan *clientConn, max(connections, 1))
	c.closed, c.open = make(chan struct{}), map[*clientConn]struct{}{}
	for range cap(c.free) {
		c.free <- nil
	}
	for range cap(c.free) {
		conn, err := c.acquire(ctx)
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		c.release(conn)
	}
	return c, nil
}

func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !isClosed(c.closed) {
		close(c.closed)
	}
	for conn := range c.open {
		_ = conn.Close()
	}
	clear(c.open)
	return nil
}

var errClientClosed = status.Error(codes.Canceled, "the client is closed")

// acquire takes a connection from free. If it gets nil, it opens a connection.
func (c *client) acquire(ctx context.Context) (*clientConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	var conn *clientConn
	select {
	case conn = <-c.free:
	default:
		select {
		case conn = <-c.free:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-c.closed:
			return nil, errClientClosed
		}
	}
	if conn != nil {
		return conn, nil
	}
	conn, err := c.dial(ctx)
	if err != nil {
		c.free <- nil
		return nil, err
	}
	return conn, nil
}

func (c *client) dial(ctx context.Context) (*clientConn, error) {
	if isClosed(c.closed) {
		return nil, errClientClosed
	}
	raw, err := c.Open(ctx)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if c.clock != nil {
		raw = &firstByte{Conn: raw, clock: c.clock}
	}
	conn := newClientConn(raw, c.settings.poolsBuffersAt(tuning.Client))
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.closed) {
		_ = conn.Close()
		return nil, errClientClosed
	}
	c.open[conn] = struct{}{}
	return conn, nil
}

// release returns a call's connection to free, or closes the connection if it cannot be reused.
func (c *client) release(conn *clientConn) {
	if conn.reusable {
		conn.reportFraming(c.Dialer)
		c.free <- conn
		return
	}
	_ = conn.Close()
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
	c.free <- nil
}

func (c *client) explain(ctx context.Context, err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	if ctx.Err() == nil && isClosed(c.closed) {
		return errClientClosed
	}
	return c.Fail(ctx, err)
}

// Invoke makes a unary call.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	opts := readCallOptions(options)
	md, _ := metadata.FromOutgoingContext(ctx)
	plain, err := c.canUsePlain(md, opts)
	if err != nil {
		return err
	}
	conn, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.release(conn)

	// If the context never ends, there is nothing to watch.
	var release func() bool
	if ctx.Done() != nil {
		release = context.AfterFunc(ctx, conn.interrupt)
	}
	conn.framing = protocolCalls
	if plain {
		conn.framing = protocolPlain
		err = conn.callPlain(args, reply, opts.MaxReceive)
	} else {
		err = conn.call(callHead{method: method, timeout: timeoutOf(ctx), metadata: md}, args, reply, opts)
	}
	if release != nil && !release() {
		conn.reusable = false
	}
	if err != nil {
		return c.explain(ctx, err)
	}
	return nil
}

func (c *client) canUsePlain(md metadata.MD, opts callOptions) (bool, error) {
	switch c.settings.framing {
	case framingPlain:
		if len(md) > 0 {
			return false, errPlainLacks("no metadata")
		}
		return true, nil
	case framingAuto:
		return c.Target.Operations == 1 && len(md) == 0 && opts.Header == nil && opts.Trailer == nil, nil
	default:
		return false, nil
	}
}

// timeoutOf returns the time until a call's deadline, or 0 if there is no deadline.
func timeoutOf(ctx context.Context) time.Duration {
	deadline, limited := ctx.Deadline()
	if !limited {
		return 0
	}
	return max(time.Until(deadline), 1)
}

// clientConn is one connection of a client. Only the current call uses it, but any goroutine may
// call interrupt and Close.
type clientConn struct {
	net.Conn
	parser parser
	reader *frameReader
	// interrupt closes the connection, because neither framing can skip a late answer.
	interrupt func()
	// reusable says that the last call's answer was read completely.
	reusable bool
	// framing is the last call's framing. reported is the framing that the dialer knows.
	framing, reported string
}

func newClientConn(raw net.Conn, pooled bool) *clientConn {
	c := &clientConn{Conn: raw, reusable: true}
	c.interrupt = func() { _ = raw.Close() }
	c.reader = newFrameReader(raw, &c.parser, pooled)
	return c
}

// writeFrame sends a frame and returns its buffer to the pool.
func (c *clientConn) writeFrame(frame []byte) error {
	_, err := c.Write(frame)
	c.reader.buffers.put(frame)
	return err
}

// These names tell the dialer which framing an answer has.
const (
	protocolPlain = "tcp-plain"
	protocolCalls = "tcp-calls"
)

// reportFraming reports the framing of the peer's answer to the dialer, if the framing has changed.
func (c *clientConn) reportFraming(dialer *conn.Dialer) {
	if c.framing != c.reported {
		c.reported = c.framing
		dialer.UsedProtocol(c.framing)
	}
}

func (c *clientConn) callPlain(args, reply any, limit int) error {
	frame, err := appendFrame(c.reader.buffers.get(), kindPlain, args)
	if err != nil {
		return err
	}
	c.reusable = false
	if err := c.writeFrame(frame); err != nil {
		return err
	}
	c.parser.beginAnswer(atStart, limit)
	ev, err := c.reader.next()
	if err != nil {
		return err
	}
	defer c.reader.buffers.put(ev.body)
	if ev.kind == plainMessage {
		c.reusable = true
		return unmarshal(ev.body, reply)
	}
	failure, err := parseStatus(ev.body)
	if err != nil {
		return err
	}
	c.reusable = true
	return failure.Err()
}

// call makes a unary call in the framing named calls.
func (c *clientConn) call(head callHead, args, reply any, opts callOptions) error {
	frame, err := appendCall(c.reader.buffers.get(), head)
	if err != nil {
		return err
	}
	if frame, err = appendFrame(frame, kindMessage, args); err != nil {
		return err
	}
	c.reusable = false
	if err := c.writeFrame(appendHalfClose(frame)); err != nil {
		return err
	}
	a := answer{}
	if err := c.receive(&a, reply, opts.MaxReceive); err != nil {
		return err
	}
	c.reusable = true
	opts.storeMetadata(a.header, a.trailer)
	return a.decodedResult()
}

type answer struct {
	header, trailer metadata.MD
	answered        bool  // a message has arrived
	unreadable      error // why the message could not be decoded
	status          *status.Status
}

func (c *clientConn) receive(a *answer, reply any, limit int) error {
	c.reader.buffer()
	c.parser.beginAnswer(atFrame, limit)
	for {
		ev, err := c.reader.next()
		if err != nil {
			return err
		}
		switch ev.kind {
		case head:
			a.header, err = parseMetadata(ev.body)
		case message:
			if a.answered {
				return errMalformed("a unary call got a second answer")
			}
			a.answered = true
			a.unreadable = unmarshal(ev.body, reply)
		case end:
			a.status, a.trailer, err = parseEnd(ev.body)
		}
		c.reader.buffers.put(ev.body)
		if err != nil || ev.kind == end {
			return err
		}
	}
}

func (a *answer) decodedResult() error {
	switch {
	case a.status != nil:
		return a.status.Err()
	case !a.answered:
		return status.Error(codes.Internal, "the unary call ended with status OK but without an answer")
	default:
		return a.unreadable
	}
}

// firstByte wraps a connection and reports the first byte that arrives. This byte belongs to an
// answer, because a server sends nothing before an answer.
type firstByte struct {
	net.Conn
	clock *stack.FirstByte // nil after the first byte
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 && f.clock != nil {
		f.clock.Stop()
		f.clock = nil
	}
	return n, err
}

// callOptions holds a call's options. This wire has no compression, credentials or retries.
type callOptions struct{ rpccall.CallOptions }

func readCallOptions(options []grpc.CallOption) callOptions {
	opts := callOptions{rpccall.CallOptions{MaxReceive: stack.MaxMessageBytes}}
	for _, option := range options {
		opts.Apply(option)
	}
	opts.MaxReceive = min(opts.MaxReceive, stack.MaxMessageBytes)
	return opts
}

// storeMetadata stores the answer's metadata in the variables that the call's options name.
func (opts *callOptions) storeMetadata(header, trailer metadata.MD) {
	if opts.Header != nil {
		*opts.Header = header
	}
	if opts.Trailer != nil {
		*opts.Trailer = trailer
	}
}
