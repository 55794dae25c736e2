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

// Connector opens a client's TCP connections, with TLS if the variant says so.
type Connector struct {
	conn.Opener
	Target Target

	name string // the stack's name, in errors
}

// NewConnector prepares connections. Over TLS the peer must agree to the protocol, unless empty.
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

// Fail turns a connection's error into a call's error.
func (c *Connector) Fail(ctx context.Context, err error) error {
	return FailContext(ctx, fmt.Errorf("%s client of %s: %w", c.name, c.Target.Address, err))
}

// OpenFunc makes a client of one connection. The clock times its only call; nil: keep the client.
type OpenFunc func(ctx context.Context, clock *FirstByte) (Client, error)

// NewClient makes a client for the target's lifecycle. Calls use the kept connections in turn.
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

// NewPerCall makes a client that opens a connection for every call. It opens one first, to fail
// early, and to get the TLS session that calls resume.
func (c *Connector) NewPerCall(ctx context.Context, open OpenFunc) (Client, error) {
	var err error
	if c.Target.Lifecycle == conn.Resumed {
		err = c.Prime(ctx)
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

type roundRobin struct{ conn.Turns[Client] }

func (t *roundRobin) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return t.Next().Invoke(ctx, method, args, reply, options...)
}

func (t *roundRobin) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return t.Next().NewStream(ctx, desc, method, options...)
}

func (t *roundRobin) Close() error {
	return errors.Join(lists.Map(t.All, Client.Close)...)
}

// FirstByte measures the time from a call's beginning until its answer begins. As a stats.Handler
// it stops when a gRPC library has read the header. If a library reports the header only at a
// stream's end, it stops at the first message.
type FirstByte struct {
	begin  time.Time
	dialer *conn.Dialer
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

const (
	poolKey  = "pool"
	autoPool = "auto"
	// mostPooled limits the connections that a pool opens: chanpool's default.
	mostPooled = 16
	// poolDial bounds how long a pool waits for a further connection.
	poolDial = 10 * time.Second
)

// AutoConnection is the mode of variants with pool=auto.
var AutoConnection = scenario.Connection{Mode: scenario.Auto, Size: mostPooled}

// PoolOption is the option of stacks whose connections a pool can choose.
func PoolOption() scenario.Option {
	return scenario.Option{
		Key: poolKey, Values: []string{"off", autoPool}, Default: "off", Role: scenario.ConnectionsRole,
		Help: "auto: as many connections as wirelab.dev/rpc/chanpool finds useful, 16 at most; wins over the connection mode",
	}
}

// Pooled reports whether a variant has that option.
func Pooled(v scenario.Variant) bool {
	value, _ := v.Get(poolKey)
	return value == autoPool
}

// NewPool is NewClient with a pool that chooses the number of kept connections.
func (c *Connector) NewPool(ctx context.Context, open OpenFunc) (Client, error) {
	if c.Target.Lifecycle != conn.Kept {
		return c.NewPerCall(ctx, open)
	}
	first, err := open(ctx, nil)
	if err != nil {
		return nil, err
	}
	later := context.WithoutCancel(ctx)
	pool, err := chanpool.New(func() (chanpool.Channel, error) {
		if first != nil {
			one := first
			first = nil
			return one, nil
		}
		ctx, cancel := context.WithTimeout(later, poolDial)
		defer cancel()
		return open(ctx, nil)
	}, chanpool.Max(mostPooled))
	if err != nil { // the pool took the connection, and has closed it
		return nil, err
	}
	return pool, nil
}

// perCall is a Client that opens a connection when a call begins, and closes it at its end.
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
	context.AfterFunc(ctx, end) // a caller may end a stream by ending its context
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
	_ = one.Close() // the call has returned its own error
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

// callStream calls end when the stream of a connection's only call is over.
type callStream struct {
	grpc.ClientStream
	single bool // the server sends one message
	end    func()
}

func (s *callStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.end()
	}
	return err
}
