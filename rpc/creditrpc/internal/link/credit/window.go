package credit

// Window is a receiver's side of one credit: of bytes, or of requests.
type Window struct {
	size int64 // of what may be under way or not taken in
	left int64 // that the peer may still use
	back int64 // taken in and not granted again yet
}

// NewWindow grants so much at once: the peer must know it.
func NewWindow(size int64) Window { return Window{size: size, left: size} }

// Receive uses credit. It reports false where the peer had none: it breaks the protocol.
func (w *Window) Receive(cost int64) bool {
	w.left -= cost
	return w.left >= 0
}

// Take returns credit for what has been taken in. The grant is for the peer, now; 0 while
// too little has come together to be worth a frame.
func (w *Window) Take(cost int64) (grant int64) {
	w.back += cost
	if w.back < (w.size+renewals-1)/renewals {
		return 0
	}
	grant, w.back = w.back, 0
	w.left += grant
	return grant
}

// renewals is into how many grants a window is divided. With few, the sender's credit would end
// while the receiver works on the last part; each costs a short frame.
const renewals = 8

// Resize changes how much the peer may have. A larger window is granted at once; a smaller
// one keeps back what is returned until it is reached.
func (w *Window) Resize(size int64) (grant int64) {
	w.back += size - w.size
	w.size = size
	if w.back <= 0 {
		return 0
	}
	return w.Take(0)
}

// Held is what the peer has used and this end has not taken in.
func (w *Window) Held() int64 { return w.size - w.left - w.back }
