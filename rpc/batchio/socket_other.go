//go:build !unix

package batchio

import (
	"errors"
	"net"
	"time"
)

// ReadsNow reports whether ReadNow and WriteNow work on this system.
const ReadsNow = false

// ReadNow returns errors.ErrUnsupported.
func ReadNow(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// WriteNow returns errors.ErrUnsupported.
func WriteNow(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// SetUserTimeout does nothing: only Linux has TCP_USER_TIMEOUT.
func SetUserTimeout(net.Conn, time.Duration) {}

// newSocketReader returns nil: without raw sockets, reads do not spin.
func newSocketReader(*Conn) func() (int, error) { return nil }

// socketWriter is unused on this system: the Conn writes to its connection.
type socketWriter struct{}

func newSocketWriter(net.Conn) *socketWriter { return nil }

func (*socketWriter) write(*Output, bool) error { return nil }

// Read reads from nc.
func Read(nc net.Conn, p []byte) (int, error) { return nc.Read(p) }

// Spin returns nc: this system has no reads that do not wait.
func Spin(nc net.Conn, _ time.Duration) net.Conn { return nc }

// Direct returns nc.
func Direct(nc net.Conn) net.Conn { return nc }

// A directConn is never made on this system.
type directConn struct {
	net.Conn
	spin time.Duration
}
