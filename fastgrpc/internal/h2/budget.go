package h2

import "time"

// budget bounds frames that cost work and bring none: pings, settings, resets,
// priorities, empty DATA, unknown types. Real work earns credit and so does time.
// Without it a peer could keep the connection busy for nothing (CVE-2019-9512 and
// its siblings, CVE-2023-44487).
type budget struct {
	credit  int
	last    time.Duration
	replies int // answers in the output that a peer's control frames caused
}

const (
	budgetMax = 10000
	// budgetPerSecond is what a connection may go on with for ever: so little that it
	// is no burden, even where each frame begins a call and ends it.
	budgetPerSecond = 1000
	// sentFrameCredit lets a peer answer each HEADERS or DATA frame with window
	// updates and pings, as bandwidth estimators do.
	sentFrameCredit = 4
	// maxReplies bounds what an unread connection accumulates in answers.
	maxReplies = 4096
)

func (b *budget) init() { b.credit = budgetMax }

func (b *budget) refill(now time.Duration) {
	if gained := int((now - b.last) * budgetPerSecond / time.Second); gained > 0 {
		b.last = now
		b.credit = min(budgetMax, b.credit+gained)
	}
}

// earn rewards work that was worth its cost.
func (b *budget) earn(n int) { b.credit = min(budgetMax, b.credit+n) }

// spend charges a frame that brought nothing.
func (b *budget) spend() bool {
	b.credit--
	return b.credit >= 0
}

// reply charges an answer that lies in the output.
func (b *budget) reply() bool {
	b.replies++
	return b.replies <= maxReplies
}

func (b *budget) flushed() { b.replies = 0 }
