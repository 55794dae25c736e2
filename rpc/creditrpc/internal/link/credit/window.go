package credit

// A Window is the receiving side of one kind of credit: of bytes, or of requests.
type Window struct {
	size int64 // credit that may be in use
	left int64 // credit that the peer may still use
	back int64 // credit that was returned and not granted again yet
}

// NewWindow returns a window whose first credit the peer knows already.
func NewWindow(size int64) Window { return Window{size: size, left: size} }

// Receive uses credit. It reports false if the peer had too little, and so broke the protocol.
func (w *Window) Receive(cost int64) bool {
	w.left -= cost
	return w.left >= 0
}

// Take returns credit of messages that were taken in. The result is the credit to grant to the
// peer now; it is 0 while there is too little to be worth a frame.
func (w *Window) Take(cost int64) (grant int64) {
	w.back += cost
	if w.back < (w.size+renewals-1)/renewals {
		return 0
	}
	grant, w.back = w.back, 0
	w.left += grant
	return grant
}

// renewals is the number of grants into which a window is divided. With few, the sender's credit
// would end while the receiver works on the last part; each grant costs a short frame.
const renewals = 8

// Held returns the credit that the peer has used and this end has not taken in.
func (w *Window) Held() int64 { return w.size - w.left - w.back }
