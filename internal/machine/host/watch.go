package host

import (
	"os"
	"syscall"
	"time"

	"wirelab.dev/internal/data/record"
)

// A Watch watches what other programs take of the machine's CPUs.
type Watch struct {
	activity Activity
	census   Census
	own      time.Duration
	known    bool
}

// StartWatch begins to watch.
func StartWatch() Watch {
	activity, err := Snapshot()
	return Watch{activity: activity, census: TakeCensus(), own: ownCPU(), known: err == nil}
}

// Fill sets what others used since StartWatch. workers is the CPU time of this process's workers.
// Fill returns the time of all CPUs, and the part of it that this process and its workers used.
func (w Watch) Fill(h *record.HostState, workers time.Duration) (whole, own time.Duration) {
	now, err := Snapshot()
	if err != nil || !w.known {
		return 0, 0
	}
	own = workers + ownCPU() - w.own
	others := now.Since(w.activity, own)
	h.StolenShare, h.OthersShare, h.PressureShare = &others.StolenShare, &others.OthersBusyShare, others.PressureShare
	h.Neighbours = mostOf(TakeCensus().Since(w.census, os.Getpid()), others.Whole)
	return others.Whole, own
}

// mostOf returns the processes to record, of those that took CPU time, most first.
func mostOf(took []Consumer, of time.Duration) []record.Neighbour {
	const most, least = 5, 0.005
	var list []record.Neighbour
	for _, one := range took {
		share := float64(one.Time) / float64(max(1, of))
		if len(list) == most || share < least {
			break
		}
		list = append(list, record.Neighbour{PID: one.PID, Name: one.Name, Share: share})
	}
	return list
}

// ownCPU returns the processor time of wirelab itself, without its workers.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
