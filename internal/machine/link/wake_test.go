package link

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The truth that is put in: sleeps that end late by an exponential spread. What must
// come out: what one in ten exceeds.
func TestAWakeLearnsHowLateItIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	w := newWakeMargin(time.Millisecond)
	var late, learnt []int64
	for i := range 20_000 {
		late = append(late, int64(random.ExpFloat64()*20_000))
		w.recordSleep(late[i])
		if i > 1000 {
			learnt = append(learnt, w.late)
		}
	}
	slices.Sort(late)
	slices.Sort(learnt)
	want, got := late[len(late)*9/10], learnt[len(learnt)/2]
	if got < want*9/10 || got > want*11/10 {
		t.Errorf("learnt %d ns, want about %d", got, want)
	}
}

func TestAWakeIsEarlyOnlyWhereItMatters(t *testing.T) {
	for _, test := range []struct {
		delay, late time.Duration
		early       bool
	}{
		{0, 50 * time.Microsecond, false},
		{time.Millisecond, 50 * time.Microsecond, true},
		{20 * time.Millisecond, 50 * time.Microsecond, false},
		{25 * time.Millisecond, time.Second, false}, // a busy machine: no more than maxSpin is taken
		{5 * time.Millisecond, time.Second, true},
	} {
		w := newWakeMargin(test.delay)
		for range 1000 {
			w.recordSleep(int64(test.late))
		}
		if early := w.margin(); early > 0 != test.early || early > maxSpin {
			t.Errorf("a delay of %v, woken %v late: %d ns early", test.delay, test.late, early)
		}
	}
}
