package stack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/rpc/chanpool"
)

// Connector opens a client's TCP connections, with TLS if the variant uses it.
type Connector struct {
	conn.Opener
	Target Target

	name string // the stack's name, in errors
}

// NewConnector makes a Connector. Over TLS, the server must choose the given protocol. If protocol
// is "", the server may choose any protocol.
func NewConnector(s Stack, v scenario.Variant, security Security, target Target, protocol string) (*Connector, error) {
	if err := CheckLifecycle(s, v, target.Lifecycle); err != nil {
		return nil, err
	}
	c := &Connector{Target: target, name: s.Info().Name, Opener: conn.Opener{Dialer: target.DialerOrNew(), Address: target.Address, Protocol: protocol}}
	if !security.On {
		return c, nil
	}
	var protocols []string
	if protocol != "" {
		protocols = []string{protocol}
	}
	var err error
	c.TLS, err = security.ClientConfig(target.Address, target.Trust, protocols...)
	return c, err
}

// Fail converts a connection's error into a call's error.
func (c *Connector) Fail(ctx context.Context, err error) error {
	return FailContext(ctx, fmt.Errorf("%s client of %s: %w", c.name, c.Target.Address, err))
}

// OpenFunc makes a client with one connection. If clock is not nil, the client makes only one call,
// and clock measures the call's time to first byte.
type OpenFunc func(ctx context.Context, clock *FirstByte) (Client, error)

// NewClient makes a client for the target's lifecycle. Calls use kept connections one after
// another.
func (c *Connector) NewClient(ctx context.Context, open OpenFunc) (Client, error) {
	if c.Target.Lifecycle != conn.Kept {
		return c.NewPerCall(ctx, open)
	}
	shared := &roundRobin{}
	for range max(c.Target.Connections, 1) {
		one, err := open(ctx, nil)
		if err != nil {
			return nil, errors.Join(err, shared.Close())
		}
		if c.Target.Connections <= 1 {
			return one, nil
		}
		shared.All = append(shared.All, one)
	}
	return shared, nil
}

// NewPerCall makes a client that opens a connection for every call. Before the first call it opens
// one connection, to report errors early and to get the TLS session that calls resume.
func (c *Connector) NewPerCall(ctx context.Context, open OpenFunc) (Client, error) {
	var err error
	if c.Target.Lifecycle == conn.Resumed {
		err = c.PrimeSession(ctx)
	} else if opened, failed := c.Open(ctx); failed == nil {
		err = opened.Close()
	} else {
		err = failed
	}
	if err != nil {
		return nil, c.Fail(ctx, err)
	}
	return &perCall{connector: c, open: open, alive: map[Client]struct{}{}}, nil
}

type roundRobin struct{ conn.RoundRobin[Client] }

func (t *roundRobin) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return t.Next().Invoke(ctx, method, args, reply, options...)
}

func (t *roundRobin) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return t.Next().NewStream(ctx, desc, method, options...)
}

func (t *roundRobin) Close() error {
	return errors.Join(lists.Map(t.All, Client.Close)...)
}

// FirstByte measures the time from a call's start to the first byte of its answer. As a
// stats.Handler it stops when a gRPC library has read the header. Some libraries report a stream's
// header only at the stream's end. For them FirstByte stops at the first message.
type FirstByte struct {
	begin  time.Time
	dialer *conn.Dialer
	once   sync.Once
}

var _ stats.Handler = (*FirstByte)(nil)

// Stop stops the clock. Only the first call of Stop has an effect.
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

const (
	poolKey  = "pool"
	autoPool = "auto"
	// maxPooled limits a pool's connections. It equals chanpool's default.
	maxPooled = 16
	// poolDialTimeout limits how long a pool waits for an additional connection.
	poolDialTimeout = 10 * time.Second
)

// AutoConnection is the connection mode of variants with pool=auto.
var AutoConnection = scenario.Connection{Mode: scenario.Auto, Size: maxPooled}

// PoolOption returns the option that lets a pool choose the number of connections.
func PoolOption() scenario.Option {
	return scenario.Option{
		Key: poolKey, Values: []string{"off", autoPool}, Default: "off", Role: scenario.ConnectionsRole,
		Help: "auto: as many connections as wirelab.dev/rpc/chanpool finds useful, at most 16; overrides the connection mode",
	}
}

// HasPoolOption reports whether a variant sets PoolOption.
func HasPoolOption(v scenario.Variant) bool {
	value, _ := v.Get(poolKey)
	return value == autoPool
}

// NewPool is like NewClient, but a pool chooses the number of kept connections.
func (c *Connector) NewPool(ctx context.Context, open OpenFunc) (Client, error) {
	if c.Target.Lifecycle != conn.Kept {
		return c.NewPerCall(ctx, open)
	}
	first, err := open(ctx, nil)
	if err != nil {
		return nil, err
	}
	later := context.WithoutCancel(ctx)
	pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) {
		if first != nil {
			one := first
			first = nil
			return one, nil
		}
		ctx, cancel := context.WithTimeout(later, poolDialTimeout)
		defer cancel()
		return open(ctx, nil)
	}, chanpool.Max(maxPooled))
	if err != nil { // the pool has already closed the connection
		return nil, err
	}
	return pool, nil
}

// perCall is a Client that opens a connection for each call and closes it after the call.
type perCall struct {
	connector *Connector
	open      OpenFunc

	mu     sync.Mutex
	alive  map[Client]struct{}
	closed bool
}

var errPerCallClosed = status.Error(codes.Canceled, "the client is closed")

func (p *perCall) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	one, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer p.end(one)
	return one.Invoke(ctx, method, args, reply, options...)
}

func (p *perCall) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	one, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := one.NewStream(ctx, desc, method, options...)
	if err != nil {
		p.end(one)
		return nil, err
	}
	end := sync.OnceFunc(func() { p.end(one) })
	context.AfterFunc(ctx, end) // a caller may end a stream by cancelling its context
	return &callStream{ClientStream: stream, single: !desc.ServerStreams, end: end}, nil
}

func (p *perCall) begin(ctx context.Context) (Client, error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, errPerCallClosed
	}
	one, err := p.open(ctx, &FirstByte{begin: time.Now(), dialer: p.connector.Dialer})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = one.Close()
		return nil, errPerCallClosed
	}
	p.alive[one] = struct{}{}
	return one, nil
}

func (p *perCall) end(one Client) {
	p.mu.Lock()
	delete(p.alive, one)
	p.mu.Unlock()
	_ = one.Close() // ignore errors: the call has returned its own error
}

func (p *perCall) Close() error {
	p.mu.Lock()
	p.closed = true
	alive := p.alive
	p.alive = map[Client]struct{}{}
	p.mu.Unlock()
	for one := range alive {
		_ = one.Close()
	}
	return nil
}

// callStream calls its function end after the stream's end, so that the connection can be closed.
type callStream struct {
	grpc.ClientStream
	single bool // the server sends only one message
	end    func()
}

func (s *callStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.end()
	}
	return err
}
