package h2

import "time"

// budget bounds frames that cost work but carry no calls: pings, settings, resets,
// priorities, empty DATA, unknown types. Calls and time earn credit. Without a budget, a
// peer could keep the connection busy for nothing (CVE-2019-9512 and related,
// CVE-2023-44487).
type budget struct {
	credit  int
	last    time.Duration
	replies int // answers to control frames that are in the output
}

const (
	budgetMax = 10000
	// budgetPerSecond is the rate that a connection may sustain. It is low enough to be
	// harmless, even if each frame begins and ends a call.
	budgetPerSecond = 1000
	// creditPerSentFrame lets a peer answer each HEADERS or DATA frame with window
	// updates and pings, as bandwidth estimators do.
	creditPerSentFrame = 4
	// maxUnwrittenReplies bounds the answers queued for a peer that does not read.
	maxUnwrittenReplies = 4096
)

func (b *budget) refill(now time.Duration) {
	if gained := int((now - b.last) * budgetPerSecond / time.Second); gained > 0 {
		b.last = now
		b.credit = min(budgetMax, b.credit+gained)
	}
}

// earn adds credit for frames that belong to calls.
func (b *budget) earn(n int) { b.credit = min(budgetMax, b.credit+n) }

// spend takes credit for one frame and reports whether there was any.
func (b *budget) spend() bool {
	b.credit--
	return b.credit >= 0
}

// reply counts an answer in the output and reports whether it is within the bound.
func (b *budget) reply() bool {
	b.replies++
	return b.replies <= maxUnwrittenReplies
}

func (b *budget) flushed() { b.replies = 0 }
