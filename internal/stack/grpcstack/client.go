package grpcstack

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"

	"wirelab.dev/internal/stack"
)

// client shares its calls out over connections, in turns.
type client struct {
	conns []*conn
	turn  atomic.Uint64
}

// pool opens the connections one after the other. They are grpc-go's own in
// every setting.
func (l *line) pool(ctx context.Context) (stack.Client, error) {
	c := &client{}
	for range max(l.target.Connections, 1) {
		one, err := l.connect(ctx, l.target.Address)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, one)
	}
	return c, nil
}

func (c *client) next() *conn {
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
