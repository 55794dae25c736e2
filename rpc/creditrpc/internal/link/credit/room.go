package credit

// A Room counts the memory for messages that are longer than their stream's credit and come in
// parts. A message gets room for all of itself or waits, so that no two wait for each other.
type Room struct{ left int64 }

// NewRoom returns a room of a number of bytes.
func NewRoom(bytes int64) Room { return Room{bytes} }

// Take takes room, and reports whether there was enough.
func (r *Room) Take(bytes int64) bool {
	if bytes > r.left {
		return false
	}
	r.left -= bytes
	return true
}

// Return gives room back.
func (r *Room) Return(bytes int64) { r.left += bytes }
