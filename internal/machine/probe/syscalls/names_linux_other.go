//go:build !amd64 && !arm64

package syscalls

var names map[int]string // empty: syscallName returns numbers
