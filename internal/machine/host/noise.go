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

// An Activity holds the CPU times of the whole machine since it started.
type Activity struct {
	at time.Time
	// busy, idle and stolen add up to the time of all CPUs. The kernel counts in steps of 10 ms.
	busy, idle, stolen time.Duration
	// stalled is the time for which at least one task was ready to run but had no CPU.
	stalled     time.Duration
	hasPressure bool
}

// OthersUsage holds the shares of CPU time, from 0 to 1, that other programs used.
type OthersUsage struct {
	StolenShare float64 // share that the hypervisor gave to other virtual machines
	// OthersBusyShare excludes the caller's CPU time. It includes interrupts that the caller's
	// traffic causes.
	OthersBusyShare float64
	// Whole is the total time of all CPUs, busy or idle.
	Whole time.Duration
	// PressureShare is the share of the time in which a task waited for a CPU. nil means unknown.
	PressureShare *float64
}

// ReadActivity reads the machine's CPU times. It takes 70 µs.
func ReadActivity() (Activity, error) { return readActivity(os.DirFS("/"), time.Now()) }

func readActivity(root fs.FS, now time.Time) (Activity, error) {
	stat, err := readText(root, "proc/stat")
	if errors.Is(err, fs.ErrNotExist) {
		return Activity{}, fmt.Errorf("read CPU times: %w: use Linux with procfs on /proc", ErrUnsupported)
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

// Since returns the CPU time that other programs used after an earlier reading. own is the CPU time
// that the caller used in the same period.
func (a Activity) Since(earlier Activity, own time.Duration) OthersUsage {
	var neighbour OthersUsage
	if whole := a.allCPUTime() - earlier.allCPUTime(); whole > 0 {
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

func (a Activity) allCPUTime() time.Duration { return a.busy + a.idle + a.stolen }

// parseStat parses the first line of /proc/stat (proc_stat(5)). Its fields are: user nice system
// idle iowait irq softirq steal. On all systems that Go supports, a tick is 10 ms (USER_HZ).
func parseStat(stat string) (Activity, error) {
	const tick = 10 * time.Millisecond
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Activity{}, fmt.Errorf("read CPU times: /proc/stat begins with %q, but should begin with \"cpu\" and eight numbers", line)
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

// An ActivityWatch measures how much of the machine's CPU time other programs use.
type ActivityWatch struct {
	activity Activity
	census   ProcessTable
	own      time.Duration // CPU time of this process without its workers
	known    bool
}

// StartActivityWatch starts to measure the CPU time of other programs.
func StartActivityWatch() ActivityWatch {
	activity, err := ReadActivity()
	return ActivityWatch{activity: activity, census: ReadProcessTable(), own: processCPUTime(), known: err == nil}
}

// Processes returns the processes at the start of the watch.
func (w ActivityWatch) Processes() ProcessTable { return w.census }

// FillHostState stores the CPU time that other programs used since StartActivityWatch. workers is
// the CPU time of this process's workers and of the measured service, whose processes are in service.
// It returns the time of all CPUs (whole), and the CPU time of this process with its workers (own).
func (w ActivityWatch) FillHostState(h *record.HostState, workers time.Duration, service ...int) (whole, own time.Duration) {
	now, err := ReadActivity()
	if err != nil || !w.known {
		return 0, 0
	}
	own = workers + processCPUTime() - w.own
	others := now.Since(w.activity, own)
	h.StolenShare, h.OthersShare, h.PressureShare = &others.StolenShare, &others.OthersBusyShare, others.PressureShare
	if elapsed := now.at.Sub(w.activity.at); elapsed > 0 {
		h.OthersCPUs = new(others.OthersBusyShare * float64(others.Whole) / float64(elapsed))
	}
	h.Neighbours = largestNeighbours(slices.DeleteFunc(ReadProcessTable().Since(w.census, os.Getpid()), func(c CPUConsumer) bool { return slices.Contains(service, c.PID) }), others.Whole)
	return others.Whole, own
}

func largestNeighbours(took []CPUConsumer, of time.Duration) []record.Neighbour {
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

// A Noise holds how much CPU time busy threads lost to other programs.
type Noise struct {
	CPUs int // number of CPUs with a busy thread
	// LostShare is the share of the time, from 0 to 1, that other processes used. It is the mean
	// over the CPUs.
	LostShare float64
	// LargestGap is the longest time for which a busy thread did not run.
	LargestGap time.Duration
	Warnings   []string
}

// MeasureNoise runs a busy thread for d on each CPU, on GOMAXPROCS CPUs at a time. nil means all
// CPUs of the process. The result depends on the process's priority.
//
// It computes LostShare from CPU times and not from gaps, because the process's other threads cause
// gaps too. In a new process with one CPU, Go's monitor thread uses a tenth of the CPU.
func MeasureNoise(cpus []int, d time.Duration) Noise {
	if cpus == nil {
		cpus, _ = AllowedCPUs() // on error threads cannot be pinned either
	}
	var noise Noise
	var elapsed, spun time.Duration
	before := processCPUTime()
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
				noise.Warnings = append(noise.Warnings, fmt.Sprintf("the noise on CPU %d was not measured: %v", batch[i], refusal))
				continue
			}
			noise.CPUs++
			noise.LargestGap = max(noise.LargestGap, loops[i].largestGap)
			elapsed += loops[i].elapsed
			spun += loops[i].used
		}
	}
	if elapsed > 0 {
		ownOthers := max(0, processCPUTime()-before-spun)
		noise.LostShare = max(0, float64(elapsed-spun-ownOthers)/float64(elapsed))
	}
	return noise
}

// gapThreshold is the shortest gap that counts. Normally two readings of the clock are 50 ns apart.
// A timer interrupt takes 1 to 3 µs.
const gapThreshold = 2 * time.Microsecond

// A busyLoop holds the results of a busy thread, which only reads the clock.
type busyLoop struct{ elapsed, used, largestGap time.Duration }

// run pins the calling thread and loops for d. Do not use the thread afterwards.
func (l *busyLoop) run(cpu int, d time.Duration) error {
	if err := PinThread([]int{cpu}); err != nil {
		return err
	}
	before, start := threadCPUTime(), time.Now()
	for l.elapsed < d {
		now := time.Since(start)
		if gap := now - l.elapsed; gap > gapThreshold {
			l.largestGap = max(l.largestGap, gap)
		}
		l.elapsed = now
	}
	l.used = threadCPUTime() - before
	return nil
}
