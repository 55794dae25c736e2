// Package congestion sets and reads the congestion control of TCP sockets. Machines have different
// defaults, and the cost of packet loss depends on the congestion control.
//
// This package must not know who listens or dials, nor what is sent.
package congestion

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"syscall"

	"wirelab.dev/internal/base/unsupported"
)

// Control returns a function for the field Control of net.Dialer and net.ListenConfig that sets
// a socket's congestion control. If name is empty, it returns nil.
func Control(name string) func(network, address string, socket syscall.RawConn) error {
	if name == "" {
		return nil
	}
	return func(_, _ string, socket syscall.RawConn) error {
		var refused error
		err := socket.Control(func(fd uintptr) { refused = set(int(fd), name) })
		return cmp.Or(err, refused)
	}
}

type contextKey struct{}

// WithName returns a context with a congestion control for the listeners that Listen makes.
func WithName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, contextKey{}, name)
}

// Listen listens with the context's congestion control, or else with the machine's default.
// Accepted connections inherit it from their listener.
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	name, _ := ctx.Value(contextKey{}).(string)
	config := net.ListenConfig{Control: Control(name)}
	return config.Listen(ctx, network, address)
}

// NameOf returns the congestion control of a TCP socket, or "" if the machine does not report it.
func NameOf(socket syscall.Conn) string {
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
