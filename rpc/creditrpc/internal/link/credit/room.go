package credit

// Room is memory for messages that are longer than their stream's credit, which come in
// parts. One gets room for all of itself or waits, so that no two wait for each other's.
type Room struct{ left int64 }

// NewRoom has so many bytes.
func NewRoom(bytes int64) Room { return Room{bytes} }

// Take takes room, if there is so much.
func (r *Room) Take(bytes int64) bool {
	if bytes > r.left {
		return false
	}
	r.left -= bytes
	return true
}

// Return gives room back.
func (r *Room) Return(bytes int64) { r.left += bytes }
