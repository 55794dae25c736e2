package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"

	"wirelab.dev/internal/data/scenario"
)

// Connector opens a client's TCP connections, with TLS if the variant says so. The
// target's dialer counts them.
type Connector struct {
	Target Target
	Dialer *Dialer

	name     string      // of the stack, in errors
	tls      *tls.Config // nil: cleartext
	protocol string      // what the peer must agree to over TLS; empty: nothing
}

// NewConnector prepares connections of a stack's variant to the target. Over TLS the peer
// must agree to the protocol (RFC 7301), unless that is empty.
func NewConnector(s Stack, v scenario.Variant, security Security, target Target, protocol string) (*Connector, error) {
	if err := CheckLifecycle(s, v, target.Lifecycle); err != nil {
		return nil, err
	}
	c := &Connector{Target: target, name: s.Info().Name, Dialer: DialerOf(target), protocol: protocol}
	if !security.On {
		return c, nil
	}
	var protocols []string
	if protocol != "" {
		protocols = []string{protocol}
	}
	var err error
	c.tls, err = security.ClientConfig(target.Address, target.Trust, protocols...)
	return c, err
}

// Credentials are those of a gRPC library that is given connections from Open. Over TLS
// they expect that the handshake is done: the Dialer counts and times handshakes in the
// same way for every stack.
func (c *Connector) Credentials() credentials.TransportCredentials {
	if c.tls == nil {
		return insecure.NewCredentials()
	}
	return clientCredentials{}
}

// Open makes a connection. With TLS the handshake is done; without TLS the result
// is a *CleartextConn.
func (c *Connector) Open(ctx context.Context) (net.Conn, error) {
	if c.tls == nil {
		conn, err := c.Dialer.DialContext(ctx, "tcp", c.Target.Address)
		if err != nil {
			return nil, err
		}
		return Cleartext(conn), nil
	}
	conn, err := c.Dialer.DialTLS(ctx, c.Target.Address, c.tls)
	if err != nil {
		return nil, err
	}
	if c.protocol != "" && conn.ConnectionState().NegotiatedProtocol != c.protocol {
		return nil, errors.Join(fmt.Errorf("the peer speaks TLS but did not agree to the protocol %s", c.protocol), conn.Close())
	}
	return conn, nil
}

// Preconnect opens a connection before a library dials. The caller's context bounds
// it, and the caller gets its error unchanged.
func (c *Connector) Preconnect(ctx context.Context) (*Preconnected, error) {
	conn, err := c.Open(ctx)
	if err != nil {
		return nil, c.Fail(ctx, err)
	}
	return &Preconnected{connector: c, conn: conn}, nil
}

// Preconnected holds the connection that Preconnect opened.
type Preconnected struct {
	connector *Connector

	mu   sync.Mutex
	conn net.Conn // nil once the library has taken it
}

// Dial returns that connection to the library the first time, and a new one each
// further time.
func (a *Preconnected) Dial(ctx context.Context) (net.Conn, error) {
	if conn := a.take(); conn != nil {
		return conn, nil
	}
	return a.connector.Open(ctx)
}

// Close closes the connection if the library has not taken it.
func (a *Preconnected) Close() {
	if conn := a.take(); conn != nil {
		_ = conn.Close()
	}
}

func (a *Preconnected) take() net.Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn := a.conn
	a.conn = nil
	return conn
}

// Fail turns a connection's error into a call's error.
func (c *Connector) Fail(ctx context.Context, err error) error {
	return FailContext(ctx, fmt.Errorf("%s client of %s: %w", c.name, c.Target.Address, err))
}

// OpenFunc makes a client of one connection. The clock times the connection's only
// call; it is nil where the connection is kept.
type OpenFunc func(ctx context.Context, clock *FirstByte) (Client, error)

// NewClient makes a client for the target's lifecycle. Connections that are kept
// are opened one after the other, and calls use them in turns.
func (c *Connector) NewClient(ctx context.Context, open OpenFunc) (Client, error) {
	if c.Target.Lifecycle != Kept {
		return c.NewPerCall(ctx, open)
	}
	shared := &roundRobin{}
	for range max(c.Target.Connections, 1) {
		one, err := open(ctx, nil)
		if err != nil {
			return nil, errors.Join(err, shared.Close())
		}
		shared.clients = append(shared.clients, one)
	}
	if len(shared.clients) == 1 {
		return shared.clients[0], nil
	}
	return shared, nil
}

// NewPerCall makes a client that opens a connection for every call. It opens one
// connection first, to fail early if none can be opened. If calls resume a TLS
// session, that connection gets the session.
func (c *Connector) NewPerCall(ctx context.Context, open OpenFunc) (Client, error) {
	if err := c.try(ctx); err != nil {
		return nil, c.Fail(ctx, err)
	}
	return &perCall{connector: c, open: open, alive: map[Client]struct{}{}}, nil
}

func (c *Connector) try(ctx context.Context) error {
	if c.Target.Lifecycle == Resumed {
		return Prime(ctx, c.Dialer, c.Target.Address, c.tls)
	}
	conn, err := c.Open(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

// roundRobin distributes calls over clients in turns.
type roundRobin struct {
	clients []Client
	turn    atomic.Uint64
}

func (t *roundRobin) next() Client { return t.clients[t.turn.Add(1)%uint64(len(t.clients))] }

// Invoke implements grpc.ClientConnInterface.
func (t *roundRobin) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return t.next().Invoke(ctx, method, args, reply, options...)
}

// NewStream implements grpc.ClientConnInterface.
func (t *roundRobin) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return t.next().NewStream(ctx, desc, method, options...)
}

// Close implements Client.
func (t *roundRobin) Close() error {
	var errs []error
	for _, one := range t.clients {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// FirstByte measures the time from a call's beginning until its answer begins. As a
// stats.Handler it stops when a gRPC library has read the answer's header. Some
// libraries report the header only at the end of a stream; there it stops at the
// first message. Only HTTP/2's own frames come before the header.
type FirstByte struct {
	begin  time.Time
	dialer *Dialer
	once   sync.Once
}

var _ stats.Handler = (*FirstByte)(nil)

// Stop records that the answer begins. Only the first call counts.
func (f *FirstByte) Stop() { f.once.Do(func() { f.dialer.FirstByte(time.Since(f.begin)) }) }

// HandleRPC implements stats.Handler.
func (f *FirstByte) HandleRPC(_ context.Context, what stats.RPCStats) {
	switch what.(type) {
	case *stats.InHeader, *stats.InPayload:
		f.Stop()
	}
}

// TagRPC implements stats.Handler.
func (*FirstByte) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (*FirstByte) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*FirstByte) HandleConn(context.Context, stats.ConnStats) {}
