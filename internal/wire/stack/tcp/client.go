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

// client shares its connections among its calls. A call holds one while it runs; further calls wait
// in the order they came.
type client struct {
	*stack.Connector
	settings settings
	clock    *stack.FirstByte // times the only call; nil if connections are kept

	// free holds the connections that no call holds. A call that receives nil opens one.
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

// acquire waits for a free connection, opens it if needed, and returns it.
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
	conn := newClientConn(raw, c.settings.pooledAt(tuning.Client))
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.closed) {
		_ = conn.Close()
		return nil, errClientClosed
	}
	c.open[conn] = struct{}{}
	return conn, nil
}

// release makes a call's connection free again, or closes it if it cannot be used again.
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

// explain turns a connection's error into the call's error.
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
	plain, err := c.usesPlain(md, opts)
	if err != nil {
		return err
	}
	conn, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.release(conn)

	// A context that cannot end costs nothing here.
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

// usesPlain reports whether a unary call goes in the plain framing.
func (c *client) usesPlain(md metadata.MD, opts callOptions) (bool, error) {
	switch c.settings.framing {
	case framingPlain:
		if len(md) > 0 {
			return false, errPlainHas("no metadata")
		}
		return true, nil
	case framingAuto:
		return c.Target.Operations == 1 && len(md) == 0 && opts.Header == nil && opts.Trailer == nil, nil
	default:
		return false, nil
	}
}

// timeoutOf returns the time that a call has left, or 0 without a deadline.
func timeoutOf(ctx context.Context) time.Duration {
	deadline, limited := ctx.Deadline()
	if !limited {
		return 0
	}
	return max(time.Until(deadline), 1)
}

// clientConn is one connection of a client. Only the call that holds it uses it; interrupt and Close
// may be called from other goroutines.
type clientConn struct {
	net.Conn
	parser parser
	reader *frameReader
	// interrupt closes the connection: a late answer could not be skipped in either framing.
	interrupt func()
	// reusable reports whether the last call was read to its end.
	reusable bool
	// framing is the framing of the last call; reported is the one that the dialer counted last.
	framing, reported string
}

func newClientConn(raw net.Conn, pooled bool) *clientConn {
	c := &clientConn{Conn: raw, reusable: true}
	c.interrupt = func() { _ = raw.Close() }
	c.reader = newFrameReader(raw, &c.parser, pooled)
	return c
}

// send writes a frame from the buffer pool and returns it there.
func (c *clientConn) send(frame []byte) error {
	_, err := c.Write(frame)
	c.reader.buffers.put(frame)
	return err
}

// The framings' protocol names.
const (
	protocolPlain = "tcp-plain"
	protocolCalls = "tcp-calls"
)

// reportFraming reports the framing of the peer's answer to the dialer, if it changed.
func (c *clientConn) reportFraming(dialer *conn.Dialer) {
	if c.framing != c.reported {
		c.reported = c.framing
		dialer.UsedProtocol(c.framing)
	}
}

// callPlain makes a call in the plain framing.
func (c *clientConn) callPlain(args, reply any, limit int) error {
	frame, err := appendFrame(c.reader.buffers.get(), kindPlain, args)
	if err != nil {
		return err
	}
	c.reusable = false
	if err := c.send(frame); err != nil {
		return err
	}
	c.parser.expect(atStart, limit)
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

// call makes a unary call in the calls framing.
func (c *clientConn) call(head callHead, args, reply any, opts callOptions) error {
	frame, err := appendCall(c.reader.buffers.get(), head)
	if err != nil {
		return err
	}
	if frame, err = appendFrame(frame, kindMessage, args); err != nil {
		return err
	}
	c.reusable = false
	if err := c.send(appendHalfClose(frame)); err != nil {
		return err
	}
	a := answer{}
	if err := c.receive(&a, reply, opts.MaxReceive); err != nil {
		return err
	}
	c.reusable = true
	opts.store(a.header, a.trailer)
	return a.result()
}

// An answer holds the answer to a unary call.
type answer struct {
	header, trailer metadata.MD
	answered        bool  // a message has come
	unreadable      error // why the message could not be decoded
	status          *status.Status
}

// receive reads the frames of an answer up to its end.
func (c *clientConn) receive(a *answer, reply any, limit int) error {
	c.reader.buffer()
	c.parser.expect(atFrame, limit)
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
				return errMalformed("a second message answers a unary call")
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

func (a *answer) result() error {
	switch {
	case a.status != nil:
		return a.status.Err()
	case !a.answered:
		return status.Error(codes.Internal, "the unary call ended with status OK but without an answer")
	default:
		return a.unreadable
	}
}

// firstByte reports the first byte that arrives: this wire sends nothing before an answer.
type firstByte struct {
	net.Conn
	clock *stack.FirstByte // nil once it has come
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 && f.clock != nil {
		f.clock.Stop()
		f.clock = nil
	}
	return n, err
}

// callOptions are this wire's options. It has no compression, credentials or retries.
type callOptions struct{ rpccall.CallOptions }

func readCallOptions(options []grpc.CallOption) callOptions {
	opts := callOptions{rpccall.CallOptions{MaxReceive: stack.MaxMessageBytes}}
	for _, option := range options {
		opts.Apply(option)
	}
	opts.MaxReceive = min(opts.MaxReceive, stack.MaxMessageBytes)
	return opts
}

// store stores the answer's metadata where the caller asked for it.
func (opts *callOptions) store(header, trailer metadata.MD) {
	if opts.Header != nil {
		*opts.Header = header
	}
	if opts.Trailer != nil {
		*opts.Trailer = trailer
	}
}
