//go:build !linux

package stack

import "syscall"

func bindWithoutPort(string, string, syscall.RawConn) error { return nil }

// spreads says that loopback has more than one address here: elsewhere than on
// Linux, only those that somebody has set up.
const spreads = false
