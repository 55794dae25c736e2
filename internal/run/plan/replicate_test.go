package plan

import (
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// TestSecondPassSharesTheTime gives what the first looks left to the studies with open claims.
func TestSecondPassSharesTheTime(t *testing.T) {
	ended := func(open int, why string) *record.Until {
		return &record.Until{Begun: 1, Ended: why, Looks: []record.InterimLook{{Repeats: 3, Open: &open}}}
	}
	untils := []*record.Until{ended(1, ""), ended(0, record.EndedAnswered), ended(3, ""), ended(2, record.EndedNothing)}
	spent := []time.Duration{time.Minute, time.Minute, 2 * time.Minute, time.Minute}
	r := &Replication{Budget: 9 * time.Minute}
	for i, u := range untils {
		if !r.SetTime(false, i, untils, spent, 0) || u.Ended == "" && u.TimeNS != firstLookOnly {
			t.Errorf("study %d takes its first look in %d ns", i, u.TimeNS)
		}
		if u.Ended == "" {
			u.Ended = record.EndedByTime
		}
	}
	// 4 minutes are left for 4 open claims. The first study uses its minute.
	for i, want := range []time.Duration{2 * time.Minute, 0, 5 * time.Minute, 0} {
		ran := 5*time.Minute + time.Duration(min(i, 1))*time.Minute
		goesOn := r.SetTime(true, i, untils, spent, ran)
		if goesOn != (want > 0) || goesOn && (untils[i].TimeNS != int64(want) || untils[i].Ended != "") {
			t.Errorf("study %d goes on: %v, for %v", i, goesOn, time.Duration(untils[i].TimeNS))
		}
	}
	if r.SetTime(true, 0, untils, spent, 9*time.Minute) {
		t.Error("a study goes on although the time is over")
	}
}
