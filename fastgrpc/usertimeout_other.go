//go:build !linux

package fastgrpc

import (
	"net"
	"time"
)

// setUserTimeout does nothing: only Linux has TCP_USER_TIMEOUT.
func setUserTimeout(net.Conn, time.Duration, time.Duration) {}
