//go:build !linux

package batchio

import (
	"net"
	"time"
)

// SetUserTimeout does nothing: only Linux has TCP_USER_TIMEOUT.
func SetUserTimeout(net.Conn, time.Duration) {}
