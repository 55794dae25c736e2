package grpcstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"wirelab.dev/internal/stack"
)

// client shares its calls out over connections, in turns. Each is a
// grpc.ClientConn of its own, since one holds one connection to one address.
type client struct {
	conns  []*grpc.ClientConn
	turn   atomic.Uint64
	dialer *stack.Dialer

	mu     sync.Mutex
	reason error // why the last attempt to connect failed
}

func dial(ctx context.Context, target stack.Target) (*client, error) {
	c := &client{dialer: stack.DialerOf(target)}
	for range max(target.Connections, 1) {
		conn, err := grpc.NewClient(target.Address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithNoProxy(), // what is measured is this wire, whatever the environment says
			grpc.WithContextDialer(c.dial),
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes),
				grpc.MaxCallSendMsgSize(stack.MaxMessageBytes),
			),
		)
		if err == nil {
			c.conns = append(c.conns, conn)
			err = c.connect(ctx, conn)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("grpc client of %s: %w", target.Address, err), c.Close())
		}
	}
	return c, nil
}

func (c *client) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, "tcp", address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reason = err
	return conn, err
}

// connect waits until the connection can take calls. grpc-go would go on
// trying; the first failure is enough here.
func (c *client) connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.reason != nil {
				return c.reason
			}
			return errors.New("the peer does not speak HTTP/2")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("wait for the connection: %w", ctx.Err())
		}
	}
}

func (c *client) next() *grpc.ClientConn {
	if len(c.conns) == 1 {
		return c.conns[0]
	}
	return c.conns[c.turn.Add(1)%uint64(len(c.conns))]
}

func (c *client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.next().Invoke(ctx, method, args, reply, opts...)
}

func (c *client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.next().NewStream(ctx, desc, method, opts...)
}

func (c *client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
