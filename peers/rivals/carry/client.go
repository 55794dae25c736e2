package carry

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
)

// A Session is a library's client on one connection. Its errors are gRPC statuses where the server
// has sent one.
type Session interface {
	Invoke(ctx context.Context, method string, request, reply any) error
	NewStream(ctx context.Context, desc *grpc.StreamDesc, method string) (Stream, error)
	// Closed reports whether the connection is lost.
	Closed() bool
	Close() error
}

// A Stream is a library's stream, at the client.
type Stream interface {
	Messages
	CloseSend() error
	// End ends the stream after its last message, and returns the call's error if the library sends
	// the error after that message.
	End() error
}

// A Client is a stack.Client that uses Sessions. It opens a lost connection again.
type Client struct {
	connector *stack.Connector
	wire      Wire
	open      func(context.Context) (Session, error)
	clock     *stack.FirstByte // nil if nothing is timed

	current atomic.Pointer[Session]
	mu      sync.Mutex // held while a connection is opened
	closed  bool
}

// A Wire describes a client of a variant.
type Wire struct {
	Stack    stack.Stack
	Variant  scenario.Variant
	Security stack.Security
	Target   stack.Target
	// Protocol is the name of the protocol in records.
	Protocol string
	// Open makes a session on a connection.
	Open func(net.Conn) (Session, error)
}

// NewClient makes a client for the target's lifecycle and number of connections.
func NewClient(ctx context.Context, w Wire) (stack.Client, error) {
	connector, err := stack.NewConnector(w.Stack, w.Variant, w.Security, w.Target, "")
	if err != nil {
		return nil, err
	}
	return connector.NewClient(ctx, func(ctx context.Context, clock *stack.FirstByte) (stack.Client, error) {
		return dial(ctx, connector, w, clock)
	})
}

// dial makes a client with one connection.
func dial(ctx context.Context, connector *stack.Connector, w Wire, clock *stack.FirstByte) (stack.Client, error) {
	return New(ctx, connector, w, clock, func(ctx context.Context) (Session, error) {
		raw, err := connector.Open(ctx)
		if err != nil {
			return nil, err
		}
		session, err := w.Open(raw)
		if err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		connector.Dialer.UsedProtocol(w.Protocol)
		return session, nil
	})
}

// New makes a client and opens its first session with open, in place of w.Open. If clock is not nil, the client makes one call,
// and clock measures it.
func New(ctx context.Context, connector *stack.Connector, w Wire, clock *stack.FirstByte, open func(context.Context) (Session, error)) (stack.Client, error) {
	c := &Client{connector: connector, wire: w, clock: clock, open: open}
	if _, err := c.session(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

var errClosed = status.Error(codes.Canceled, "the client is closed")

// session returns the open session, or opens one.
func (c *Client) session(ctx context.Context) (Session, error) {
	if s := c.current.Load(); s != nil && !(*s).Closed() {
		return *s, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	old := c.current.Load()
	if old != nil && !(*old).Closed() {
		return *old, nil
	}
	if old != nil {
		_ = (*old).Close() // it is lost
	}
	opened, err := c.open(ctx)
	if err != nil {
		return nil, c.connector.Fail(ctx, err)
	}
	c.current.Store(&opened)
	return opened, nil
}

// Invoke implements grpc.ClientConnInterface.
func (c *Client) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	if err := CheckCall(ctx, c.wire.Stack.Info().Name, options); err != nil {
		return err
	}
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	if err := s.Invoke(ctx, method, request, reply); err != nil {
		return c.explain(ctx, err)
	}
	c.stopClock()
	return nil
}

// CheckCall returns an error for a call that no stack of this program carries. It reports no
// metadata to the options.
func CheckCall(ctx context.Context, name string, options []grpc.CallOption) error {
	if err := stack.CheckCall(ctx, name, options); err != nil {
		return err
	}
	if md, has := metadata.FromOutgoingContext(ctx); has && len(md) > 0 {
		return status.Errorf(codes.Unimplemented, "%s: this stack carries no metadata", name)
	}
	none := func() metadata.MD { return nil }
	stack.ReportMetadata(options, none, none)
	return nil
}

// NewStream implements grpc.ClientConnInterface.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := CheckCall(ctx, c.wire.Stack.Info().Name, options); err != nil {
		return nil, err
	}
	if err := stack.CheckKind(c.wire.Stack, c.wire.Variant, stack.KindOf(desc)); err != nil {
		return nil, stack.Fail(codes.Unimplemented, err)
	}
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := s.NewStream(ctx, desc, method)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	return &clientStream{Stream: stream, client: c, ctx: ctx, single: !desc.ServerStreams}, nil
}

// Close implements io.Closer.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if s := c.current.Load(); s != nil {
		_ = (*s).Close() // the server may have closed the connection before
	}
	return nil
}

func (c *Client) stopClock() {
	if c.clock != nil {
		c.clock.Stop()
	}
}

// explain returns a call's error as a gRPC status.
func (c *Client) explain(ctx context.Context, err error) error {
	var told interface{ GRPCStatus() *status.Status }
	switch {
	case ctx.Err() != nil:
		return stack.FailContext(ctx, err)
	case errors.As(err, &told):
		return err
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return errClosed
	}
	return c.connector.Fail(ctx, err)
}
