package faststack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"

	"google.golang.org/grpc/credentials/insecure"

	"wirelab.dev/fastgrpc"
	"wirelab.dev/internal/stack"
)

// protocol is HTTP/2's name in the TLS handshake (RFC 9113, section 3.2).
const protocol = "h2"

// line is what a client's connections are made from.
type line struct {
	settings
	target stack.Target
	dialer *stack.Dialer
	tls    *tls.Config // nil: cleartext
}

func newLine(s settings, target stack.Target) (*line, error) {
	l := &line{settings: s, target: target, dialer: stack.DialerOf(target)}
	var err error
	if s.security.On {
		l.tls, err = s.security.ClientConfig(target.Address, target.Trust, protocol)
	}
	return l, err
}

// open makes a connection; over TLS, with the handshake done.
func (l *line) open(ctx context.Context) (net.Conn, error) {
	if l.tls == nil {
		conn, err := l.dialer.DialContext(ctx, "tcp", l.target.Address)
		if err != nil {
			return nil, err
		}
		return socket{Conn: stack.Cleartext(conn), counted: conn}, nil
	}
	conn, err := l.dialer.DialTLS(ctx, l.target.Address, l.tls)
	if err != nil {
		return nil, err
	}
	if conn.ConnectionState().NegotiatedProtocol != protocol {
		return nil, errors.Join(errors.New("the peer speaks TLS, and did not agree to HTTP/2"), conn.Close())
	}
	return conn, nil
}

// socket lets the library write and read past what has only the first bytes to see.
type socket struct {
	net.Conn
	counted net.Conn
}

var _ fastgrpc.Transparent = socket{}

func (s socket) Socket() net.Conn { return s.counted }

// connect makes a client of one connection and waits until it can take calls. The
// library would go on trying; the first failure is enough here.
func (l *line) connect(ctx context.Context, more ...fastgrpc.ClientOption) (*fastgrpc.Client, error) {
	options := append(slices.Clip(more),
		fastgrpc.WithTransportCredentials(insecure.NewCredentials()),
		fastgrpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.open(ctx) }),
	)
	options = append(options, l.clientTuning().Options()...)
	if l.tls != nil {
		options = append(options, fastgrpc.WithTransportCredentials(stack.ClientCredentials()))
	}
	c, err := fastgrpc.NewClient("passthrough:///"+l.target.Address, options...)
	if err != nil {
		return nil, l.explain(ctx, err)
	}
	if err := c.WaitReady(ctx); err != nil {
		_ = c.Close() // err says what there is to say
		return nil, l.explain(ctx, err)
	}
	l.dialer.Spoke(protocol)
	return c, nil
}

// rehearse begins a connection as the first call will, so that a client whose
// calls must fail is never made. Where they are to resume a TLS session, this
// brings it.
func (l *line) rehearse(ctx context.Context) error {
	if l.target.Lifecycle == stack.Resumed {
		return stack.Prime(ctx, l.dialer, l.target.Address, l.tls)
	}
	conn, err := l.open(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

// explain makes a call's error of what a connection met.
func (l *line) explain(ctx context.Context, err error) error {
	return stack.FailContext(ctx, fmt.Errorf("fastgrpc client of %s: %w", l.target.Address, err))
}
