//go:build !linux

package httpwire

// datagramsIn is how many datagrams the kernel makes of b: segments are Linux's.
func datagramsIn([]byte, []byte) int64 { return 1 }
