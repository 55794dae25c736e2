package rpccall

import (
	"testing"
	"time"
)

// TestCheckPing plays a peer that is heard of, falls silent, answers one ping and not the next.
func TestCheckPing(t *testing.T) {
	k := Clock{Ping: PingTimer{Every: 10, Timeout: 3}, MaxIdle: Forever}
	for _, step := range []struct {
		now, lastRead time.Duration
		ping, lost    bool
		next          time.Duration
	}{
		{0, 0, false, false, 10},
		{4, 5, false, false, 10}, // it was heard of after now was taken
		{12, 5, false, false, 3},
		{15, 5, true, false, 3},
		{17, 5, false, false, 1},
		{18, 16, false, false, 8}, // answered
		{26, 16, true, false, 3},
		{29, 16, false, true, 10},
	} {
		k.begin(step.now)
		if ping, lost := k.CheckPing(step.lastRead); ping != step.ping || lost != step.lost || k.next != step.next {
			t.Errorf("at %d, heard of at %d: ping %v, lost %v, next in %d; want %+v", step.now, step.lastRead, ping, lost, k.next, step)
		}
	}
	never := Clock{Ping: PingTimer{Every: Forever}, MaxIdle: Forever}
	never.begin(time.Hour)
	if ping, lost := never.CheckPing(2 * time.Hour); ping || lost || never.next != Forever {
		t.Errorf("without pings: ping %v, lost %v, next in %v", ping, lost, never.next)
	}
}
