package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/data/record"
)

// Activity holds the CPU times of the whole machine since it started.
type Activity struct {
	at time.Time
	// busy, idle and stolen add up to the time of all CPUs, in hundredths of a second.
	busy, idle, stolen time.Duration
	// stalled is the time in which a runnable task, anywhere, had no CPU.
	stalled     time.Duration
	hasPressure bool
}

// A Neighbour holds the shares of CPU time, 0 to 1, that others used during a trial.
type Neighbour struct {
	StolenShare float64 // the hypervisor took it
	// OthersBusyShare leaves out the caller's own time, but not interrupt work for its traffic.
	OthersBusyShare float64
	// Whole is the time of all CPUs. The other times are parts of it.
	Whole time.Duration
	// PressureShare is the part of the trial in which a task waited for a CPU; nil: not counted.
	PressureShare *float64
}

// Snapshot reads the machine's CPU times (70 µs).
func Snapshot() (Activity, error) { return snapshot(os.DirFS("/"), time.Now()) }

func snapshot(root fs.FS, now time.Time) (Activity, error) {
	stat, err := readText(root, "proc/stat")
	if errors.Is(err, fs.ErrNotExist) {
		return Activity{}, fmt.Errorf("read CPU times: %w: it needs /proc/stat, as on Linux", ErrUnsupported)
	}
	if err != nil {
		return Activity{}, fmt.Errorf("read CPU times: %w", err)
	}
	activity, err := parseStat(stat)
	if err != nil {
		return Activity{}, err
	}
	activity.at = now
	if pressure, err := readText(root, "proc/pressure/cpu"); err == nil {
		activity.stalled, activity.hasPressure = parsePressure(pressure)
	}
	return activity, nil
}

// Since returns the difference to an earlier snapshot. own is the caller's CPU time in between.
func (a Activity) Since(earlier Activity, own time.Duration) Neighbour {
	var neighbour Neighbour
	if whole := a.whole() - earlier.whole(); whole > 0 {
		neighbour.Whole = whole
		neighbour.StolenShare = float64(a.stolen-earlier.stolen) / float64(whole)
		neighbour.OthersBusyShare = float64(max(0, a.busy-earlier.busy-own)) / float64(whole)
	}
	if elapsed := a.at.Sub(earlier.at); a.hasPressure && earlier.hasPressure && elapsed > 0 {
		share := float64(a.stalled-earlier.stalled) / float64(elapsed)
		neighbour.PressureShare = &share
	}
	return neighbour
}

func (a Activity) whole() time.Duration { return a.busy + a.idle + a.stolen }

// parseStat reads the first line of /proc/stat, proc_stat(5): user nice system idle iowait irq
// softirq steal. The tick is 1/100 s (USER_HZ) wherever Go runs.
func parseStat(stat string) (Activity, error) {
	const tick = 10 * time.Millisecond
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Activity{}, fmt.Errorf("read CPU times: /proc/stat begins %q, expected \"cpu\" and eight figures", line)
	}
	var activity Activity
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Activity{}, fmt.Errorf("read CPU times: field %d of /proc/stat: %w", i+1, err)
		}
		spent := time.Duration(ticks) * tick
		switch i {
		case 3, 4:
			activity.idle += spent
		case 7:
			activity.stolen += spent
		default:
			activity.busy += spent
		}
	}
	return activity, nil
}

// parsePressure reads "some avg10=… avg60=… avg300=… total=MICROSECONDS".
func parsePressure(pressure string) (time.Duration, bool) {
	line, _, _ := strings.Cut(pressure, "\n")
	_, total, found := strings.Cut(line, "total=")
	if !found || !strings.HasPrefix(line, "some ") {
		return 0, false
	}
	microseconds, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0, false
	}
	return time.Duration(microseconds) * time.Microsecond, true
}

// A Watch measures how much of the machine's CPU time other programs take.
type Watch struct {
	activity Activity
	census   Census
	own      time.Duration // of wirelab itself, without its workers
	known    bool
}

// StartWatch begins to watch.
func StartWatch() Watch {
	activity, err := Snapshot()
	return Watch{activity: activity, census: TakeCensus(), own: processCPU(), known: err == nil}
}

// Fill sets the CPU time of others since StartWatch; workers is the CPU time of this process's
// workers. It returns the time of all CPUs, and the time that this process and its workers used.
func (w Watch) Fill(h *record.HostState, workers time.Duration) (whole, own time.Duration) {
	now, err := Snapshot()
	if err != nil || !w.known {
		return 0, 0
	}
	own = workers + processCPU() - w.own
	others := now.Since(w.activity, own)
	h.StolenShare, h.OthersShare, h.PressureShare = &others.StolenShare, &others.OthersBusyShare, others.PressureShare
	h.Neighbours = mostOf(TakeCensus().Since(w.census, os.Getpid()), others.Whole)
	return others.Whole, own
}

// mostOf returns the processes to record among those that took CPU time, the largest first.
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

// A Noise holds the share of their CPUs that busy-looping threads lost to other programs.
type Noise struct {
	CPUs int // the number of CPUs with such a thread
	// LostShare is the mean over the CPUs, 0 to 1, of the time that went to other processes.
	LostShare float64
	// LargestGap is the longest time for which a thread did not run, whatever ran instead.
	LargestGap time.Duration
	Warnings   []string
}

// Calibrate runs a busy loop for d on each of the CPUs, GOMAXPROCS at once; nil means all CPUs of
// the process. The result depends on the process's priority.
//
// A gap does not show who ran instead: in a new process with one CPU, Go's monitor thread takes a
// tenth of the CPU. So the lost share is computed from CPU times.
func Calibrate(cpus []int, d time.Duration) Noise {
	if cpus == nil {
		cpus, _ = AllowedCPUs() // after an error, no CPU can be pinned either
	}
	var noise Noise
	var elapsed, spun time.Duration
	before := processCPU()
	for batch := range slices.Chunk(cpus, runtime.GOMAXPROCS(0)) {
		loops := make([]busyLoop, len(batch))
		refusals := make([]error, len(batch))
		var running sync.WaitGroup
		for i, cpu := range batch {
			running.Go(func() {
				refusals[i] = OnDisposableThread(func() error { return loops[i].run(cpu, d) })
			})
		}
		running.Wait()
		for i, refusal := range refusals {
			if refusal != nil {
				noise.Warnings = append(noise.Warnings, fmt.Sprintf("CPU %d not calibrated: %v", batch[i], refusal))
				continue
			}
			noise.CPUs++
			noise.LargestGap = max(noise.LargestGap, loops[i].largestGap)
			elapsed += loops[i].elapsed
			spun += loops[i].used
		}
	}
	if elapsed > 0 {
		ownOthers := max(0, processCPU()-before-spun)
		noise.LostShare = max(0, float64(elapsed-spun-ownOthers)/float64(elapsed))
	}
	return noise
}

// gapThreshold is longer than a slow clock read, and shorter than most losses of a CPU: two reads
// are some 50 ns apart, and a timer interrupt takes 1 to 3 µs.
const gapThreshold = 2 * time.Microsecond

// A busyLoop holds the measurements of a thread that only read the clock.
type busyLoop struct{ elapsed, used, largestGap time.Duration }

// run pins the calling thread, which is not used afterwards, and loops for d.
func (l *busyLoop) run(cpu int, d time.Duration) error {
	if err := PinThread([]int{cpu}); err != nil {
		return err
	}
	before, start := threadCPU(), time.Now()
	for l.elapsed < d {
		now := time.Since(start)
		if gap := now - l.elapsed; gap > gapThreshold {
			l.largestGap = max(l.largestGap, gap)
		}
		l.elapsed = now
	}
	l.used = threadCPU() - before
	return nil
}
