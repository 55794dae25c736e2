package worker

import (
	"os"
	"syscall"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
)

// Neighbours watches what other programs take of the machine's CPUs.
type Neighbours struct {
	activity host.Activity
	census   host.Census
	own      time.Duration
	known    bool
}

// WatchNeighbours begins to watch.
func WatchNeighbours() Neighbours {
	activity, err := host.Snapshot()
	return Neighbours{activity: activity, census: host.TakeCensus(), own: ownCPU(), known: err == nil}
}

// Fill sets what others used since the watch began, and returns the time of all CPUs, and the
// part of it that is not others': that of this process, and that of workers, which is given.
func (n Neighbours) Fill(h *record.HostState, workers time.Duration) (whole, own time.Duration) {
	now, err := host.Snapshot()
	if err != nil || !n.known {
		return 0, 0
	}
	own = workers + ownCPU() - n.own
	others := now.Since(n.activity, own)
	h.StolenShare, h.OthersShare, h.PressureShare = &others.StolenShare, &others.OthersBusyShare, others.PressureShare
	h.Neighbours = mostOf(host.TakeCensus().Since(n.census, os.Getpid()), others.Whole)
	return others.Whole, own
}

// mostOf returns the processes to record, of those that took CPU time, most first.
func mostOf(took []host.Consumer, of time.Duration) []record.Neighbour {
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
