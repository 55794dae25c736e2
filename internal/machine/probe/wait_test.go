package probe

import (
	"testing"
	"testing/fstest"
)

func TestCPUWaitSumsThreads(t *testing.T) {
	proc := fstest.MapFS{
		"7/task/7/schedstat":  {Data: []byte("500 200 3\n")},
		"7/task/9/schedstat":  {Data: []byte("100 44 1\n")},
		"8/task/8/schedstat":  {Data: []byte("0\n")}, // a kernel without these figures
		"8/task/8/nothing_is": {Data: nil},
	}
	for pid, want := range map[int]uint64{7: 244, 8: 0, 9: 0} {
		if waited, known := cpuWait(proc, pid); waited != want || known != (want > 0) {
			t.Errorf("process %d waited %d (known: %v), want %d", pid, waited, known, want)
		}
	}
}
