//go:build !linux

package fastgrpc

import (
	"net"

	"google.golang.org/grpc/keepalive"
)

// setUserTimeout does nothing: only Linux has TCP_USER_TIMEOUT.
func setUserTimeout(net.Conn, *keepalive.ServerParameters) {}
