package report

import (
	"path/filepath"
	"testing"
)

// fixtureService is a run that wirelab load measured and that was kept, of a small server in
// Go that sleeps half a millisecond a call:
//
//	stalling  wirelab load -z 3s …, of one that answers nothing in the first 200 ms of a second
//	failing   wirelab load -z 3s --rps 800 -c 20 …, of one that says 503 for 300 ms in three seconds
//	steps     wirelab load -z 700ms --steps 1,4,16 …
func fixtureService(t *testing.T, name string) *Run {
	t.Helper()
	return readRun(t, filepath.Join("testdata", "loads", name), "results/"+name)
}
