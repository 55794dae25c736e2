package host

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// The collector is as by default after the first collection. Not parallel: GOGC is the process's.
func TestDelayFirstCollection(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	before := percent()
	DelayFirstCollection()
	if now := percent(); now != shortRunGOGC {
		t.Fatalf("GOGC is %d before the first collection, want %d", now, shortRunGOGC)
	}
	for percent() != before { // the cleanup runs some time after the collection
		runtime.GC()
	}
	t.Setenv("GOGC", "50")
	DelayFirstCollection()
	if now := percent(); now != before {
		t.Errorf("GOGC of the environment was replaced by %d", now)
	}
}
