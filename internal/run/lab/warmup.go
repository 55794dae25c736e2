package lab

import (
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// lessons holds the longest warm-up that a trial was found to need, by cell: of trials whose
// window opened too early, as the judge reads their course. Steady courses add nothing, so
// that later trials are no longer than necessary.
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

// warmUpAtLeast returns the least warm-up of the trial: the scenario's, or the one that earlier
// trials of the cell needed, up to the longest that the scenario allows.
func (t *trial) warmUpAtLeast() time.Duration {
	w := t.planned.Cell.WarmUp
	return min(max(time.Duration(w.AtLeast), t.learnt), max(time.Duration(w.AtMost), time.Duration(w.AtLeast)))
}
