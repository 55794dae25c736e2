//go:build !linux

package conn

import "syscall"

func bindWithoutPort(string, string, syscall.RawConn) error { return nil }

// manyLoopbackAddresses is false: outside Linux, only configured loopback addresses can be used.
const manyLoopbackAddresses = false

// SocketTraffic returns no traffic: only Linux has TCP_INFO in this form.
func SocketTraffic(int) (Traffic, bool) { return Traffic{}, false }
