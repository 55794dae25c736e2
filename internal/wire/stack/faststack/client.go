package faststack

import (
	"context"
	"net"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/rpc/fastgrpc"
)

// The library writes and reads past what has only the first bytes to see.
var _ fastgrpc.Transparent = (*conn.CleartextConn)(nil)

// clientEnd is what a client needs to open its connections.
type clientEnd struct {
	settings
	*stack.Connector
}

// open makes a client of one connection and waits until it can carry calls. A
// fastgrpc.Client has one connection to an address, like a grpc.ClientConn. open returns
// the first failure, where the library would try again.
func (e *clientEnd) open(ctx context.Context, clock *stack.FirstByte) (stack.Client, error) {
	ahead, err := e.Preconnect(ctx)
	if err != nil {
		return nil, err
	}
	defer ahead.Close()
	options := append(e.tuning().Client.Options(),
		fastgrpc.WithTransportCredentials(e.Credentials()),
		fastgrpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ahead.Dial(ctx) }),
	)
	if clock != nil {
		options = append(options, fastgrpc.WithStatsHandler(clock))
	}
	c, err := fastgrpc.NewClient("passthrough:///"+e.Target.Address, options...)
	if err != nil {
		return nil, e.Fail(ctx, err)
	}
	if err := c.WaitReady(ctx); err != nil {
		_ = c.Close() // err is the error to report
		return nil, e.Fail(ctx, err)
	}
	e.Dialer.UsedProtocol(stack.HTTP2)
	return c, nil
}
