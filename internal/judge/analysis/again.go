package analysis

import (
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Again counts the measurements that were thrown away and repeated because other programs had
// spoiled them.
type Again struct {
	Trials     int // of those that have a record
	ThrownAway int // measurements of them
	Spoiled    int // trials that other programs spoiled to the end, and that nothing else is wrong with
}

// secondTime began a warning in records of older versions, which measured a trial at most
// twice.
const secondTime = "measured a second time"

func (a *Again) count(r *record.Record) {
	thrownAway := len(r.Attempts)
	for _, warning := range r.Warnings {
		if strings.HasPrefix(warning, secondTime) {
			thrownAway++
		}
	}
	if a.ThrownAway += thrownAway; thrownAway > 0 {
		a.Trials++
	}
	if matrix.SpoiledByMachine(r) {
		a.Spoiled++
	}
}
