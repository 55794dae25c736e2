package tcp

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// client shares its connections among its calls: a call holds one for as long
// as it runs, and further calls wait in the order they came.
type client struct {
	line

	// turns holds a value for each connection that no call holds: the
	// connection, or nil where there is none and the call may open one.
	turns  chan *clientConn
	closed chan struct{}

	mu   sync.Mutex
	open map[*clientConn]struct{}
}

func newClient(l line, connections int) *client {
	c := &client{
		line:   l,
		turns:  make(chan *clientConn, max(connections, 1)),
		closed: make(chan struct{}),
		open:   map[*clientConn]struct{}{},
	}
	for range cap(c.turns) {
		c.turns <- nil
	}
	return c
}

// openAll opens the connections that are not open.
func (c *client) openAll(ctx context.Context) error {
	for range cap(c.turns) {
		conn, err := c.take(ctx)
		if err != nil {
			return err
		}
		c.give(conn)
	}
	return nil
}

// Close ends everything at once; running calls fail.
func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isClosed() {
		close(c.closed)
	}
	for conn := range c.open {
		_ = conn.Close()
	}
	clear(c.open)
	return nil
}

func (c *client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

var errClientClosed = status.Error(codes.Canceled, "the client is closed")

// take waits for the call's turn and returns an open connection.
func (c *client) take(ctx context.Context) (*clientConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	var conn *clientConn
	select {
	case conn = <-c.turns:
	default:
		select {
		case conn = <-c.turns:
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
		c.turns <- nil
		return nil, err
	}
	return conn, nil
}

func (c *client) dial(ctx context.Context) (*clientConn, error) {
	if c.isClosed() {
		return nil, errClientClosed
	}
	raw, err := c.line.dial(ctx)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	conn := newClientConn(raw, c.settings.pooled)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		_ = conn.Close()
		return nil, errClientClosed
	}
	c.open[conn] = struct{}{}
	return conn, nil
}

// give ends a call's turn.
func (c *client) give(conn *clientConn) {
	if conn.reusable {
		conn.tell(c.Dialer)
		c.turns <- conn
		return
	}
	_ = conn.Close()
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
	c.turns <- nil
}

// explain makes a call's error of what its connection met.
func (c *client) explain(ctx context.Context, err error) error {
	if _, is := status.FromError(err); is {
		return err
	}
	if ctx.Err() == nil && c.isClosed() {
		return errClientClosed
	}
	return c.Fail(ctx, err)
}

// wishes are the call options that mean something on this wire. The others
// speak of what it has not: compression, credentials, retries.
type wishes struct {
	header, trailer *metadata.MD
	maxAnswerBytes  int
}

func wishesOf(options []grpc.CallOption) wishes {
	w := wishes{maxAnswerBytes: stack.MaxMessageBytes}
	for _, option := range options {
		switch o := option.(type) {
		case grpc.HeaderCallOption:
			w.header = o.HeaderAddr
		case grpc.TrailerCallOption:
			w.trailer = o.TrailerAddr
		case grpc.MaxRecvMsgSizeCallOption:
			w.maxAnswerBytes = min(o.MaxRecvMsgSize, stack.MaxMessageBytes)
		}
	}
	return w
}

// fulfil hands out the metadata of an answer.
func (w wishes) fulfil(header, trailer metadata.MD) {
	if w.header != nil {
		*w.header = header
	}
	if w.trailer != nil {
		*w.trailer = trailer
	}
}

// Invoke makes a unary call.
func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	wishes := wishesOf(options)
	carried, _ := metadata.FromOutgoingContext(ctx)
	plain, err := c.goesPlain(carried, wishes)
	if err != nil {
		return err
	}
	conn, err := c.take(ctx)
	if err != nil {
		return err
	}
	defer c.give(conn)

	// Only a context that can end costs anything here.
	var release func() bool
	if ctx.Done() != nil {
		release = context.AfterFunc(ctx, conn.interrupt)
	}
	conn.framing = spokenCalls
	if plain {
		conn.framing = spokenPlain
		err = conn.callPlain(args, reply, wishes.maxAnswerBytes)
	} else {
		err = conn.call(callHead{method: method, timeout: timeoutOf(ctx), metadata: carried}, args, reply, wishes)
	}
	if release != nil && !release() {
		conn.reusable = false
	}
	if err != nil {
		return c.explain(ctx, err)
	}
	return nil
}

// goesPlain chooses the framing of a unary call.
func (c *client) goesPlain(carried metadata.MD, w wishes) (bool, error) {
	switch c.settings.framing {
	case framingPlain:
		if len(carried) > 0 {
			return false, plainLacks("no metadata")
		}
		return true, nil
	case framingAuto:
		return c.Target.Operations == 1 && len(carried) == 0 && w.header == nil && w.trailer == nil, nil
	default:
		return false, nil
	}
}

// timeoutOf is the time a call has left; 0 where there is no limit.
func timeoutOf(ctx context.Context) time.Duration {
	deadline, limited := ctx.Deadline()
	if !limited {
		return 0
	}
	return max(time.Until(deadline), 1)
}
