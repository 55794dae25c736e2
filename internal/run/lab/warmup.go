package lab

import (
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// lessons are the longest warm-ups that trials were seen to need, by their cells: those
// whose window opened too early, as the judge reads its course. Courses that were steady
// teach nothing, so that later trials are no longer than they must be.
type lessons map[record.Cell]time.Duration

func (l *Lab) learn(r *record.Record) {
	needed, more := check.WarmUpNeeded(r, check.Default())
	if !more || needed <= l.learnt[r.Cell] {
		return
	}
	if l.learnt == nil {
		l.learnt = lessons{}
	}
	l.learnt[r.Cell] = needed
}

// warmUpAtLeast is the least warm-up of the trial: the scenario's, or what earlier trials
// of the cell were seen to need, up to the longest that the scenario allows.
func (t *trial) warmUpAtLeast() time.Duration {
	w := t.planned.Cell.WarmUp
	return min(max(time.Duration(w.AtLeast), t.learnt), max(time.Duration(w.AtMost), time.Duration(w.AtLeast)))
}
