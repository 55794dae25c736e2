package rpccall

import "time"

// A PingTimer decides when to ping a silent peer, and when to give it up.
// Its owner guards it. Times are since batchio.Epoch.
type PingTimer struct {
	Every   time.Duration // of silence before a ping
	Timeout time.Duration // for the answer

	sent  time.Duration // when the unanswered ping was sent
	waits bool          // for the answer
}

// A PingAction tells the owner of a PingTimer what to do.
type PingAction int

// The actions.
const (
	PingNothing PingAction = iota
	PingNow                // send a ping
	PingLost               // close the connection: the ping was not answered in time
)

// Check returns what to do now, and when to check again. lastRead is when the peer was last
// heard of.
func (p *PingTimer) Check(now, lastRead time.Duration) (do PingAction, next time.Duration) {
	if p.waits = p.waits && lastRead < p.sent; p.waits {
		if left := p.Timeout - (now - p.sent); left > 0 {
			return PingNothing, left
		}
		return PingLost, 0
	}
	if left := p.Every - max(0, now-lastRead); left > 0 { // the peer may have been heard since now
		return PingNothing, left
	}
	p.waits, p.sent = true, now
	return PingNow, p.Timeout
}
