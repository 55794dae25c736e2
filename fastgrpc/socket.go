package fastgrpc

import "net"

// Transparent is implemented by connections of a custom dialer or listener that wrap
// a socket without changing its bytes, for instance to count them. Other wrappers are
// treated like TLS, which costs a little more.
//
// Socket returns the wrapped socket, which implements syscall.Conn. All writes, and all
// reads after the first, go to that socket and bypass the wrapper. Deadlines and Close
// go to the wrapper.
type Transparent interface {
	Socket() net.Conn
}

// socketOf returns the socket that carries nc's bytes unchanged, or nil. It checks
// concrete types because a TLS connection may embed a socket and so have its methods.
func socketOf(nc net.Conn) net.Conn {
	switch nc := nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return nc
	case Transparent:
		return nc.Socket()
	}
	return nil
}
