package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
)

// Source takes one reading of a process.
type Source func() (Usage, error)

// Self reads the calling process. It allocates nothing and may be called
// concurrently.
//
// Processor time is exact for threads that are off their CPU, and up to one timer tick (1 to
// 10 ms) old for threads that run on another CPU.
func Self() (Usage, error) {
	usage, err := resourceUsage()
	if err != nil {
		return Usage{}, err
	}
	usage.AtNS = clock.Now()
	if err := own.read(&usage); err != nil {
		return Usage{}, fmt.Errorf("read own memory: %w", err)
	}
	return usage, nil
}

var own = newSelfReader()

// selfReader holds the buffers and open files for readings of the own process.
type selfReader struct {
	mu      sync.Mutex
	samples []metrics.Sample
	sampled []func(*Usage) *int64 // sampled figures from ofColumns on
	reading Usage                 // in the caller it would escape to the heap
	// bucketOf maps the runtime's buckets of waiting time to the buckets of Waits.
	bucketOf []int
	// status stays open: reading it again costs 9 µs, opening it 30 more.
	status *os.File
	text   [16 << 10]byte

	descriptors *os.File
	readings    int
	// others is the number of open descriptors that are not sockets.
	others int64
}

// The samples whose values fill no column. The samples of the columns with a metric follow.
const (
	gcPercent = iota
	runWait
	ofColumns
)

func newSelfReader() *selfReader {
	reader := &selfReader{samples: []metrics.Sample{
		gcPercent: {Name: "/gc/gogc:percent"},
		runWait:   {Name: "/sched/latencies:seconds"},
	}}
	for _, column := range columns {
		if column.metric != "" {
			reader.samples = append(reader.samples, metrics.Sample{Name: column.metric})
			reader.sampled = append(reader.sampled, column.of)
		}
	}
	metrics.Read(reader.samples)
	waits := reader.samples[runWait].Value.Float64Histogram()
	for i := range waits.Counts {
		// The first bucket begins at minus infinity, and is empty.
		low := math.Max(0, waits.Buckets[i])
		// Half a nanosecond up, as 64 ns is not exact in seconds.
		reader.bucketOf = append(reader.bucketOf, waitBucket(time.Duration(low*1e9+0.5)))
	}
	return reader
}

func (r *selfReader) read(usage *Usage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.readMemory(usage); err != nil {
		return err
	}
	if err := r.readSockets(usage); err != nil {
		return err
	}
	r.readRuntime()
	usage.Go = r.reading.Go
	return nil
}

// readMemory takes the peak from procfs: getrusage's ru_maxrss also holds what the parent had
// resident when it forked, so that a worker would report its controller's peak.
func (r *selfReader) readMemory(usage *Usage) error {
	if r.status == nil {
		status, err := os.Open("/proc/self/status")
		if err != nil {
			return err
		}
		r.status = status
	}
	count, err := r.status.ReadAt(r.text[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	usage.readMemory(r.text[:count])
	if usage.MaxRSSBytes == 0 {
		return errors.New("no VmHWM in /proc/self/status")
	}
	return nil
}

func (r *selfReader) readRuntime() {
	metrics.Read(r.samples)
	usage := &r.reading
	*usage = Usage{}
	for i, of := range r.sampled {
		if value := r.samples[ofColumns+i].Value; value.Kind() == metrics.KindFloat64 {
			*of(usage) = int64(value.Float64() * 1e9) // of seconds
		} else {
			*of(usage) = int64(value.Uint64())
		}
	}
	usage.Go.GCPercent = -1 // a collector that is off shows as the largest value there is
	if percent := r.samples[gcPercent].Value.Uint64(); percent < math.MaxUint64 {
		usage.Go.GCPercent = max(1, int64(percent))
	}
	for i, waits := range r.samples[runWait].Value.Float64Histogram().Counts {
		usage.Go.RunWait[r.bucketOf[i]] += int64(waits)
	}
}

// recountEvery is the number of readings that share one count of the descriptors that are not
// sockets: looking at each costs 0.4 µs, and their number hardly changes.
const recountEvery = 64

// readSockets counts all descriptors without those that are not sockets. The kernel gives the
// number of all as the size of /proc/self/fd (proc_pid_fd(5), since Linux 6.2).
func (r *selfReader) readSockets(usage *Usage) error {
	if r.descriptors == nil {
		folder, err := os.Open("/proc/self/fd")
		if err != nil {
			return fmt.Errorf("count sockets: %w", err)
		}
		r.descriptors = folder
	}
	open, err := descriptorCount(int(r.descriptors.Fd()))
	if err != nil || open == 0 {
		return err
	}
	if r.readings%recountEvery == 0 {
		r.others = otherDescriptors(open)
	}
	r.readings++
	usage.Sockets = max(0, open-r.others)
	return nil
}

// Writes returns the number of this process's system calls of the write family; 0 if the kernel
// does not count them (Documentation/filesystems/proc.rst, syscw).
func Writes() int64 {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	writes, _ := Figure(data, "\nsyscw")
	return writes
}

// WithStops adds the time for which control groups (a used-up CPU quota) or a suspension stopped
// the process. It costs 1 µs per reading, and 2 µs more per group that can have a quota.
func WithStops(source Source) Source {
	throttle := host.OpenThrottle(os.Getpid())
	return func() (Usage, error) {
		usage, err := source()
		if err != nil {
			return usage, err
		}
		throttled, err := throttle.Read()
		if err != nil {
			return usage, fmt.Errorf("read usage: %w", err)
		}
		usage.ThrottledNS, usage.ThrottledPeriods = throttled.TimeNS, throttled.Periods
		usage.SuspendedNS, err = suspended()
		return usage, err
	}
}

// OfProcess reads another process of this machine, in any language. The sum of UserNS and SystemNS
// is exact, each of them to 10 ms; switches count running threads only. It costs 0.1 ms, and 20
// µs more per thread: sample such a process ten times per second rather than a hundred.
func OfProcess(pid int) (Usage, error) {
	usage, err := readProcess(os.DirFS("/proc"), pid)
	if err != nil {
		return Usage{}, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	cpu, err := processorTime(pid)
	if err != nil {
		return Usage{}, err
	}
	usage.AtNS = clock.Now()
	usage.SystemNS = min(usage.SystemNS, int64(cpu))
	usage.UserNS = int64(cpu) - usage.SystemNS
	return usage, nil
}

// readProcess reads all but the exact processor time.
func readProcess(proc fs.FS, pid int) (Usage, error) {
	folder := strconv.Itoa(pid)
	stat, err := fs.ReadFile(proc, folder+"/stat")
	if err != nil {
		return Usage{}, err
	}
	usage, err := parseStat(string(stat))
	if err != nil {
		return Usage{}, err
	}
	status, err := fs.ReadFile(proc, folder+"/status")
	if err != nil {
		return Usage{}, err
	}
	usage.readMemory(status)
	threads, err := fs.ReadDir(proc, folder+"/task")
	if err != nil {
		return Usage{}, err
	}
	for _, thread := range threads {
		status, err := fs.ReadFile(proc, folder+"/task/"+thread.Name()+"/status")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended since it was listed
		}
		if err != nil {
			return Usage{}, err
		}
		voluntary, found := Figure(status, "\nvoluntary_ctxt_switches")
		involuntary, foundToo := Figure(status, "\nnonvoluntary_ctxt_switches")
		if !found || !foundToo {
			return Usage{}, fmt.Errorf("no switches in the status of thread %s", thread.Name())
		}
		usage.VoluntarySwitches += voluntary
		usage.InvoluntarySwitches += involuntary
	}
	return usage, nil
}

// parseStat reads /proc/PID/stat, proc_pid_stat(5). Field 2, the name, may hold any character.
func parseStat(stat string) (Usage, error) {
	const (
		tick       = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
		firstField = 3
	)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var usage Usage
	for field, into := range map[int]*int64{
		10: &usage.MinorFaults, 12: &usage.MajorFaults, 14: &usage.UserNS, 15: &usage.SystemNS,
	} {
		if field-firstField >= len(fields) {
			return Usage{}, fmt.Errorf("parse stat: %d fields: want 50 or more", len(fields)+firstField-1)
		}
		value, err := strconv.ParseInt(fields[field-firstField], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("parse stat: field %d: %w", field, err)
		}
		*into = value
	}
	usage.UserNS *= int64(tick)
	usage.SystemNS *= int64(tick)
	return usage, nil
}

// readMemory reads memory and threads. A process that has ended but was not reaped has no memory.
func (u *Usage) readMemory(status []byte) {
	const kibibyte = 1024
	resident, _ := Figure(status, "\nVmRSS")
	peak, _ := Figure(status, "\nVmHWM")
	anonymous, _ := Figure(status, "\nRssAnon")
	u.RSSBytes, u.AnonBytes, u.MaxRSSBytes = resident*kibibyte, anonymous*kibibyte, peak*kibibyte
	u.Threads, _ = Figure(status, "\nThreads")
}

// Figure returns the number after a label of procfs. The label begins with a line feed.
func Figure(status []byte, label string) (figure int64, found bool) {
	at := bytes.Index(status, []byte(label))
	if at < 0 {
		return 0, false
	}
	text := bytes.TrimLeft(status[at+len(label):], " \t:")
	if end := bytes.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		text = text[:end]
	}
	figure, err := strconv.ParseInt(string(text), 10, 64)
	return figure, err == nil
}
