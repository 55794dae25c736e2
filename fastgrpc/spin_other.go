//go:build !unix

package fastgrpc

import (
	"io"
	"net"
)

// newSocketReader returns what the reader reads from: here it does not spin.
func newSocketReader(nc net.Conn) io.Reader { return nc }
