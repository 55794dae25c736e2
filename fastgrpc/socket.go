package fastgrpc

import "net"

// Transparent is implemented by connections of a custom dialer or listener that wrap
// a socket only to watch it, to count for instance. Without it a wrapped socket is
// treated as one that changes its bytes, such as TLS, and costs a little more.
//
// Socket returns what may be used in the wrapper's place for writes, and for reads
// after the first, which is the wrapper's own. It offers its file descriptor, see
// syscall.Conn. Deadlines and Close stay the wrapper's.
type Transparent interface {
	Socket() net.Conn
}

// socketOf returns the socket that nc's bytes go to as they are, or nil. Connections
// that wrap one, for TLS say, may pretend to be one.
func socketOf(nc net.Conn) net.Conn {
	switch nc := nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return nc
	case Transparent:
		return nc.Socket()
	}
	return nil
}
