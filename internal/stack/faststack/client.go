package faststack

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"wirelab.dev/fastgrpc"
	"wirelab.dev/internal/stack"
)

// client shares its calls out over connections, in turns.
type client struct {
	conns []*fastgrpc.Client
	turn  atomic.Uint64
}

// pool opens the connections one after the other. A fastgrpc.Client has one to an
// address, as a grpc.ClientConn has.
func (l *line) pool(ctx context.Context) (stack.Client, error) {
	c := &client{}
	for range max(l.target.Connections, 1) {
		one, err := l.connect(ctx)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, one)
	}
	return c, nil
}

func (c *client) next() *fastgrpc.Client {
	if len(c.conns) == 1 {
		return c.conns[0]
	}
	return c.conns[c.turn.Add(1)%uint64(len(c.conns))]
}

func (c *client) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return c.next().Invoke(ctx, method, args, reply, options...)
}

func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.next().NewStream(ctx, desc, method, options...)
}

func (c *client) Close() error {
	var errs []error
	for _, one := range c.conns {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// single is a client for one call, which begins now.
func (l *line) single(ctx context.Context) (stack.Client, error) {
	timer := &firstByte{begin: time.Now(), dialer: l.dialer}
	one, err := l.connect(ctx, fastgrpc.WithStatsHandler(timer))
	if err != nil {
		return nil, err
	}
	return one, nil
}

// firstByte takes the time until the answer begins. What comes before it on the
// connection are HTTP/2's own frames.
type firstByte struct {
	begin  time.Time
	dialer *stack.Dialer
	once   sync.Once
}

var _ stats.Handler = (*firstByte)(nil)

// HandleRPC sees a stream's header only at its end, and its first message before.
func (f *firstByte) HandleRPC(_ context.Context, what stats.RPCStats) {
	switch what.(type) {
	case *stats.InHeader, *stats.InPayload:
		f.once.Do(func() { f.dialer.FirstByte(time.Since(f.begin)) })
	}
}

func (*firstByte) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*firstByte) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*firstByte) HandleConn(context.Context, stats.ConnStats)                       {}
