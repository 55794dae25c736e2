package grpcstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"wirelab.dev/internal/stack"
)

// protocol is HTTP/2's name in the TLS handshake (RFC 9113, section 3.2).
const protocol = "h2"

// line is what a client's connections are made from.
type line struct {
	target stack.Target
	options
	dialer *stack.Dialer
	tls    *tls.Config // nil: cleartext
}

func newLine(read options, target stack.Target) (*line, error) {
	l := &line{options: read, target: target, dialer: stack.DialerOf(target)}
	var err error
	if l.security.On {
		l.tls, err = l.security.ClientConfig(target.Address, target.Trust, protocol)
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
		return stack.Cleartext(conn), nil
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
	return stack.FailContext(ctx, fmt.Errorf("grpc client of %s: %w", l.target.Address, err))
}
