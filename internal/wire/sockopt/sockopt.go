// Package sockopt sets and reads options of TCP sockets: the congestion control and Nagle's algorithm.
// Machines have different defaults of the congestion control, and the cost of packet loss depends on it.
//
// This package must not know who listens or dials, nor what is sent.
package sockopt

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"syscall"

	"wirelab.dev/internal/base/unsupported"
)

// Options are options of TCP sockets. The zero value leaves what Go sets.
type Options struct {
	Congestion string // the congestion control; empty means the machine's default
	Nagle      bool   // switches off TCP_NODELAY, which Go switches on: a socket holds small segments back until all earlier data is acknowledged
}

// Control returns a function for the field Control of net.Dialer and net.ListenConfig that sets a
// socket's congestion control. If there is none to set, it returns nil.
func (o Options) Control() func(network, address string, socket syscall.RawConn) error {
	if o.Congestion == "" {
		return nil
	}
	return func(_, _ string, socket syscall.RawConn) error {
		var refused error
		err := socket.Control(func(fd uintptr) { refused = set(int(fd), o.Congestion) })
		return cmp.Or(err, refused)
	}
}

// Connected sets what Go changes on a new connection, so Control cannot set it.
func (o Options) Connected(connection net.Conn) error {
	if tcp, is := connection.(*net.TCPConn); is && o.Nagle {
		return tcp.SetNoDelay(false)
	}
	return nil
}

type contextKey struct{}

// With returns a context with options for the listeners that Listen makes.
func With(ctx context.Context, o Options) context.Context {
	return context.WithValue(ctx, contextKey{}, o)
}

// Listen listens with the context's options. Accepted connections have them, too.
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	o, _ := ctx.Value(contextKey{}).(Options)
	config := net.ListenConfig{Control: o.Control()}
	l, err := config.Listen(ctx, network, address)
	if err != nil || !o.Nagle {
		return l, err
	}
	return nagleListener{l, o}, nil
}

// A nagleListener accepts connections without TCP_NODELAY.
type nagleListener struct {
	net.Listener
	options Options
}

func (l nagleListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	// An error means that the connection is gone already. Its reader will see that.
	_ = l.options.Connected(accepted)
	return accepted, nil
}

// CongestionOf returns the congestion control of a TCP socket, or "" if the machine does not report it.
func CongestionOf(socket syscall.Conn) string {
	raw, err := socket.SyscallConn()
	if err != nil {
		return ""
	}
	var name string
	if raw.Control(func(fd uintptr) { name, _ = get(int(fd)) }) != nil {
		return ""
	}
	return name
}

const errUnsupported = unsupported.Error("not supported by this kernel")

// Check returns an error that wraps errors.ErrUnsupported if this process cannot use the named
// congestion control. The error lists the usable names.
func Check(name string) error {
	if err := trySetting(name); err != nil {
		return fmt.Errorf("congestion control %q: %w: %w", name, errUnsupported, err)
	}
	return nil
}
