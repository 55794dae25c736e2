//go:build !linux

package quicsocket

// datagramsIn returns 1: only Linux splits a write into segments.
func datagramsIn([]byte, []byte) int64 { return 1 }
