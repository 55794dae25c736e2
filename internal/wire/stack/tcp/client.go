package tcp

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
)

// client shares its connections among its calls. A call holds one connection
// while it runs; further calls wait in the order they came.
type client struct {
	*stack.Connector
	settings settings
	clock    *stack.FirstByte // times the only call; nil where connections are kept

	// free holds a value for each connection that no call holds. A nil value
	// allows the call that receives it to open a connection.
	free   chan *clientConn
	closed chan struct{}

	mu   sync.Mutex
	open map[*clientConn]struct{}
}

// start opens all connections of the client.
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

// Close ends everything at once; running calls fail.
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
	conn := newClientConn(raw, c.settings.pooled.client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if isClosed(c.closed) {
		_ = conn.Close()
		return nil, errClientClosed
	}
	c.open[conn] = struct{}{}
	return conn, nil
}

// release makes a call's connection free again, or closes it if it cannot be
// used again.
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
		err = conn.callPlain(args, reply, opts.maxAnswerBytes)
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
		return c.Target.Operations == 1 && len(md) == 0 && opts.header == nil && opts.trailer == nil, nil
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
