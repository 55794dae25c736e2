package rpccall

import (
	"math"
	"testing"
	"time"
)

// TestPingTimer plays a peer that is heard of, falls silent, answers one ping and not the
// next.
func TestPingTimer(t *testing.T) {
	p := PingTimer{Every: 10, Timeout: 3}
	for _, step := range []struct {
		now, lastRead time.Duration
		do            PingAction
		next          time.Duration
	}{
		{0, 0, PingNothing, 10},
		{4, 5, PingNothing, 10}, // it was heard of after now was taken
		{12, 5, PingNothing, 3},
		{15, 5, PingNow, 3},
		{17, 5, PingNothing, 1},
		{18, 16, PingNothing, 8}, // answered
		{26, 16, PingNow, 3},
		{29, 16, PingLost, 0},
	} {
		if do, next := p.Check(step.now, step.lastRead); do != step.do || next != step.next {
			t.Errorf("at %d, heard of at %d: action %d, next in %d; want %d, %d", step.now, step.lastRead, do, next, step.do, step.next)
		}
	}
	never := PingTimer{Every: math.MaxInt64}
	if do, next := never.Check(time.Hour, 2*time.Hour); do != PingNothing || next <= 0 {
		t.Errorf("without pings: action %d, next in %v", do, next)
	}
}
