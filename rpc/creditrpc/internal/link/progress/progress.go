// Package progress limits the frames of a peer that bring no call further. It knows neither frames
// nor sockets: a connection tells it what was sent and what came.
package progress

import "time"

// An Allowance limits the frames of a peer that make no progress: frames after which no call is
// further than before. Such a frame takes one from what is left. Time and the frames of calls add to
// it. Frames that a correct peer must send take nothing: credit for what this end has sent, answers
// to pings, and frames of calls whose end the peer does not know yet.
type Allowance struct {
	Left   int           // frames without progress that the peer may send
	filled time.Duration // when time last added to Left

	grants     int   // Credit frames that the peer may send for what it has received
	pongs      int   // answers to pings that the peer may send
	LateBytes  int64 // credit that the peer may still use on calls that are over
	LateFrames int   // other frames that it may send for them
}

// New returns the allowance of a new connection.
func New() Allowance { return Allowance{Left: MaxUseless} }

const (
	// MaxUseless is the most frames without progress that may come at once.
	MaxUseless = 10_000
	// UselessPerSecond is the number of such frames per second that may come for ever.
	UselessPerSecond = 1000
	// UselessPerFrame allows a peer some pings for each frame of a call, to measure the link.
	UselessPerFrame = 4
	// GrantsPerFrame is the number of Credits that a frame allows: to the connection, and to the
	// stream when the frame comes, when the message has memory and when it is read.
	GrantsPerFrame = 4
	// BytesPerGrant is the number of bytes that allow another, because a receiver may read in
	// small pieces.
	BytesPerGrant = 128
	// maxGrants, maxLateBytes and maxLateFrames limit what a peer can save up.
	maxGrants     = 1 << 20
	maxLateBytes  = 1 << 40
	maxLateFrames = 1 << 30
	// EndsPerCall is the number of frames, without Data, that a peer may send for a call that is
	// over: a server sends a Header and a Status, a client a Cancel.
	EndsPerCall = 2
)

// AddTime adds what the time since its last call allows.
func (a *Allowance) AddTime(now time.Duration) {
	const each = int64(time.Second / UselessPerSecond)
	if gained := int64(now-a.filled) / each; gained > 0 {
		a.filled += time.Duration(gained * each)
		a.Left = int(min(MaxUseless, int64(a.Left)+gained))
	}
}

// AddFrame adds what a frame of a call allows, whichever end has sent the frame.
func (a *Allowance) AddFrame() { a.Left = min(MaxUseless, a.Left+UselessPerFrame) }

// AddSent adds what a Request or Data frame with this number of bytes allows, which this end sends.
func (a *Allowance) AddSent(bytes int) {
	a.AddFrame()
	a.grants = min(maxGrants, a.grants+GrantsPerFrame+bytes/BytesPerGrant)
}

// AddLate allows the frames that the peer may send before it knows that a call is over. credit is
// what the call's stream has left for the peer's Data.
func (a *Allowance) AddLate(credit int64) {
	a.LateBytes = min(maxLateBytes, a.LateBytes+max(0, credit))
	a.LateFrames = min(maxLateFrames, a.LateFrames+EndsPerCall)
}

// subtract takes n from what is left, or returns false if there is less.
func subtract[T int | int64](left *T, n T) bool {
	if *left < n {
		return false
	}
	*left -= n
	return true
}

// AddPing allows an answer to a ping.
func (a *Allowance) AddPing() { a.pongs++ }

// Spend takes n frames without progress, or returns false if there are too many.
func (a *Allowance) Spend(n int) bool { return subtract(&a.Left, n) }

// SpendGrant takes a Credit.
func (a *Allowance) SpendGrant() bool { return subtract(&a.grants, 1) || a.Spend(1) }

// SpendPong takes an answer to a ping.
func (a *Allowance) SpendPong() bool { return subtract(&a.pongs, 1) || a.Spend(1) }

// SpendLate takes a frame, other than Data and Credit, of a call that is over.
func (a *Allowance) SpendLate() bool { return subtract(&a.LateFrames, 1) || a.Spend(1) }

// SpendLateData takes a Data with that cost, of a call that is over.
func (a *Allowance) SpendLateData(cost int64) bool { return subtract(&a.LateBytes, cost) || a.Spend(1) }
