//go:build !unix

package batchio

import "net"

// newSocketReader returns nil: without raw sockets, reads do not spin.
func newSocketReader(*Conn) func() (int, error) { return nil }

// socketWriter is unused on this system: the Conn writes to its connection.
type socketWriter struct{}

func newSocketWriter(net.Conn) *socketWriter { return nil }

func (*socketWriter) tryWrite([][]byte) (int, error) { return 0, nil }

func (*socketWriter) writeAll([]byte) error { return nil }
