//go:build !unix

package batchio

import (
	"net"
	"time"
)

// Spin returns nc: reading without waiting is not known here.
func Spin(nc net.Conn, _ time.Duration) net.Conn { return nc }

// spinConn is never made here.
type spinConn struct {
	net.Conn
	most time.Duration
}
