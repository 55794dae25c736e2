package record

import "fmt"

// Key names the cell, as in `matrix/tcp:buffers=pooled/echo/64B/c=50`: the name
// that the plan has for it. It is for people and for finding a cell again in
// its own run; between runs cells are compared whole, because load and
// connection are not in the key.
func (c Cell) Key() string {
	size := sizeText(c.RequestBytes)
	if c.ResponseBytes != c.RequestBytes {
		size += "-" + sizeText(c.ResponseBytes)
	}
	return fmt.Sprintf("%s/%s/%s/%s/c=%d", c.Part, c.Variant, c.Workload, size, c.Clients)
}

// sizeText writes bytes as scenario files do: in the largest unit that they are
// a whole number of.
func sizeText(bytes int) string {
	switch {
	case bytes != 0 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", bytes>>20)
	case bytes != 0 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", bytes>>10)
	default:
		return fmt.Sprintf("%dB", bytes)
	}
}
