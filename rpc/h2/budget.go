package h2

import "time"

// A budget bounds frames that cost work without progress, such as pings nobody needs,
// settings, empty DATA, stream errors or frames on closed streams. Frames that a conforming
// peer must send are free: updates of windows that this end has used, acknowledgements,
// resets of open streams, and frames that were under way when this end closed their stream.
// Calls and time earn credit. Without a budget, a peer could keep the connection busy for
// nothing (CVE-2019-9512 and related, CVE-2025-8671).
type budget struct {
	credit  int
	last    time.Duration
	updates int // window updates that the peer may send for what this end has sent
	pongs   int // pings that this end has sent
}

const (
	budgetMax = 10000
	// creditPerSentFrame lets a peer answer each HEADERS or DATA frame with pings, as
	// bandwidth estimators do.
	creditPerSentFrame = 4
	// A peer may update the stream's and the connection's window once per frame, and once
	// per 256 bytes of it: some do so whenever their caller has read something.
	updatesPerFrame = 2
	bytesPerUpdate  = 256 / 2
	maxUpdates      = 1 << 20
)

// refill adds the credit that time has earned, at a rate per second.
func (b *budget) refill(now time.Duration, rate int) {
	long := min(now-b.last, time.Hour) // so that the product does not overflow
	if gained := int(long * time.Duration(rate) / time.Second); gained > 0 {
		b.last = now
		b.credit = min(budgetMax, b.credit+gained)
	}
}

// earn adds credit for frames that belong to calls.
func (b *budget) earn(n int) { b.credit = min(budgetMax, b.credit+n) }

// sent adds credit for a frame with n bytes of content.
func (b *budget) sent(n int) {
	b.earn(creditPerSentFrame)
	b.updates = min(maxUpdates, b.updates+updatesPerFrame+n/bytesPerUpdate)
}

// spend takes credit and reports whether there was enough.
func (b *budget) spend(n int) bool {
	b.credit -= n
	return b.credit >= 0
}
