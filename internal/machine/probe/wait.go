package probe

import (
	"io/fs"
	"strconv"
	"strings"

	"wirelab.dev/internal/machine/host"
)

// CPUWait returns for how long the threads of a process were ready but had no CPU, in nanoseconds since
// they started. It returns false if the kernel does not say so, or if the process has ended.
func CPUWait(pid int) (waitedNS uint64, known bool) { return cpuWait(host.Proc(), pid) }

func cpuWait(proc fs.FS, pid int) (waitedNS uint64, known bool) {
	folder := strconv.Itoa(pid) + "/task"
	threads, err := fs.ReadDir(proc, folder)
	if err != nil {
		return 0, false
	}
	for _, thread := range threads {
		// The fields are the time on a CPU, the time in its queue, and the number of turns: sched-stats.rst.
		text, err := fs.ReadFile(proc, folder+"/"+thread.Name()+"/schedstat")
		fields := strings.Fields(string(text))
		if err != nil || len(fields) < 3 {
			continue
		}
		if one, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			waitedNS, known = waitedNS+one, true
		}
	}
	return waitedNS, known
}
