package grpcstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// conn is a grpc.ClientConn, which holds one connection to one address, and
// what its connection met last: grpc-go leaves of that a text.
type conn struct {
	*grpc.ClientConn
	line *line

	mu     sync.Mutex
	first  net.Conn // made already; nil once grpc-go has it
	reason error
}

// connect opens a connection and hands it to a grpc.ClientConn made with
// options. It is opened here, and not by grpc-go, because here the caller's
// context bounds it and its error arrives whole.
func (l *line) connect(ctx context.Context, target string, options ...grpc.DialOption) (*conn, error) {
	first, err := l.open(ctx)
	if err != nil {
		return nil, l.explain(ctx, err)
	}
	c := &conn{line: l, first: first}
	credentials := insecure.NewCredentials()
	if l.tls != nil {
		credentials = stack.ClientCredentials()
	}
	c.ClientConn, err = grpc.NewClient(target, append(append(options, l.clientTuning().Options()...),
		grpc.WithTransportCredentials(credentials),
		grpc.WithContextDialer(c.dial),
	)...)
	if err != nil {
		return nil, errors.Join(l.explain(ctx, err), first.Close())
	}
	if err := c.await(ctx); err != nil {
		_ = c.Close() // err says what there is to say
		return nil, l.explain(ctx, err)
	}
	return c, nil
}

// dial gives grpc-go the connection that there is; when it has lost that one, a
// new one.
func (c *conn) dial(ctx context.Context, _ string) (net.Conn, error) {
	c.mu.Lock()
	first := c.first
	c.first = nil
	c.mu.Unlock()
	if first != nil {
		return &watched{Conn: first, conn: c}, nil
	}
	again, err := c.line.open(ctx)
	if err != nil {
		c.met(err)
		return nil, err
	}
	return &watched{Conn: again, conn: c}, nil
}

// met keeps what the connection met.
func (c *conn) met(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reason = err
}

func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason
}

// await waits until the connection can take calls. grpc-go would go on trying;
// the first failure is enough here.
func (c *conn) await(ctx context.Context) error {
	c.Connect()
	for {
		state := c.GetState()
		switch state {
		case connectivity.Ready:
			c.line.dialer.Spoke(protocol)
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return errors.Join(errors.New("the peer does not speak HTTP/2"), c.why())
		}
		if !c.WaitForStateChange(ctx, state) {
			return fmt.Errorf("wait for the connection: %w", ctx.Err())
		}
	}
}

// Invoke adds the cause to the error, where it is known.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	return c.explain(c.call(ctx, method, args, reply, options...))
}

// call is grpc.ClientConn.Invoke, but for one case: grpc-go tries again what a
// peer refused, and where the second attempt is refused before its request is
// written, Invoke returns io.EOF (since v1.84). Receiving once more returns the
// status.
func (c *conn) call(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	stream, err := c.ClientConn.NewStream(ctx, &unary, method, options...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(args); err != nil {
		return err
	}
	if err = stream.RecvMsg(reply); errors.Is(err, io.EOF) {
		return stream.RecvMsg(reply)
	}
	return err
}

var unary grpc.StreamDesc

// NewStream does so too for the stream's beginning; what ends it later has only
// grpc-go's words.
func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConn.NewStream(ctx, desc, method, options...)
	return stream, c.explain(err)
}

// explain looks for what the connection met in grpc-go's text, which quotes it.
func (c *conn) explain(err error) error {
	if err == nil || status.Code(err) != codes.Unavailable {
		return err
	}
	if reason := c.why(); reason != nil && strings.Contains(status.Convert(err).Message(), reason.Error()) {
		return stack.Because(err, reason)
	}
	return err
}

// Close closes the connection too that grpc-go never asked for.
func (c *conn) Close() error {
	c.mu.Lock()
	first := c.first
	c.first = nil
	c.mu.Unlock()
	if first != nil {
		_ = first.Close()
	}
	return c.ClientConn.Close()
}

// watched notes with what error reading ended.
type watched struct {
	net.Conn
	conn *conn
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.conn.met(err)
	}
	return n, err
}

// NetConn is where credentials look for TLS.
func (w *watched) NetConn() net.Conn { return w.Conn }
