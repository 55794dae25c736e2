//go:build !linux

package conn

import "syscall"

func bindWithoutPort(string, string, syscall.RawConn) error { return nil }

// manyLoopbackAddresses reports whether all of 127.0.0.0/8 can be used here: other
// systems than Linux have only the addresses that were set up.
const manyLoopbackAddresses = false

// socketTraffic reports nothing: only Linux has TCP_INFO in this form.
func socketTraffic(int) (Traffic, bool) { return Traffic{}, false }
