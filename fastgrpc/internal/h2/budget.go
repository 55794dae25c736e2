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
	// creditPerSentFrame lets a peer answer each HEADERS or DATA frame with window
	// updates and pings, as bandwidth estimators do.
	creditPerSentFrame = 4
	// maxUnwrittenReplies bounds the answers queued for a peer that does not read.
	maxUnwrittenReplies = 4096
)

// refill adds the credit that time earned at a rate a second.
func (b *budget) refill(now time.Duration, rate int) {
	long := min(now-b.last, time.Hour) // so that the product does not overflow
	if gained := int(long * time.Duration(rate) / time.Second); gained > 0 {
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
