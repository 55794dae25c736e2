//go:build !linux

package quicsocket

// countDatagrams returns 1: only Linux splits one write into several datagrams.
func countDatagrams([]byte, []byte) int64 { return 1 }
