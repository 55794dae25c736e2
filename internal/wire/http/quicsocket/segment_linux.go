package quicsocket

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// countDatagrams returns the number of datagrams that the kernel sends for b.
func countDatagrams(b, control []byte) int64 {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		if header.Level == unix.SOL_UDP && header.Type == unix.UDP_SEGMENT && len(data) >= 2 {
			if size := int(binary.NativeEndian.Uint16(data)); size > 0 {
				return int64((len(b) + size - 1) / size)
			}
		}
		control = rest
	}
	return 1
}
