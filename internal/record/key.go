package record

import (
	"fmt"

	"wirelab.dev/internal/units"
)

// Key names the cell, as in `matrix/tcp:buffers=pooled/echo/64B/c=50`: the name
// that the plan has for it. It is for people and for finding a cell again in
// its own run; between runs cells are compared whole, because load and
// connection are not in the key.
func (c Cell) Key() string {
	size := units.Bytes(c.RequestBytes, "")
	if c.ResponseBytes != c.RequestBytes {
		size += "-" + units.Bytes(c.ResponseBytes, "")
	}
	return fmt.Sprintf("%s/%s/%s/%s/c=%d", c.Part, c.Variant, c.Workload, size, c.Clients)
}
