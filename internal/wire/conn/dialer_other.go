//go:build !linux

package conn

import (
	"net"
	"syscall"
)

func bindWithoutPort(string, string, syscall.RawConn) error { return nil }

// manyLoopbackAddresses is false: outside Linux, only configured loopback addresses can be used.
const manyLoopbackAddresses = false

// HasPeerClosed returns false: only Linux tells it without reading from the connection.
func HasPeerClosed(net.Conn) bool { return false }

// HasUnacknowledged returns false: only Linux has TCP_INFO in this form.
func HasUnacknowledged(net.Conn) bool { return false }

// SocketTraffic returns no traffic: only Linux has TCP_INFO in this form.
func SocketTraffic(int) (Traffic, bool) { return Traffic{}, false }
