//go:build !unix

package fastgrpc

import (
	"io"
	"net"
)

// newSocketReader returns nc: without raw sockets, reads do not spin.
func newSocketReader(nc net.Conn) io.Reader { return nc }

// socketWriter is unused on this system: the transport writes to its connection.
type socketWriter struct{}

func newSocketWriter(net.Conn) *socketWriter { return nil }

func (*socketWriter) tryWrite([]byte) (int, error) { return 0, nil }

func (*socketWriter) writeAll([]byte) error { return nil }
