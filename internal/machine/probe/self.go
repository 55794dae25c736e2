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
	"sync/atomic"
	"syscall"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
)

// A Source takes one reading of a process.
type Source func() (Usage, error)

// ReadSelf reads the calling process. It allocates no memory and may be called concurrently.
//
// CPU time is exact for threads that do not run at the moment. For threads that run on other CPUs
// it may be one timer tick (1 to 10 ms) old.
func ReadSelf() (Usage, error) {
	usage, err := resourceUsage()
	if err != nil {
		return Usage{}, err
	}
	usage.AtNS = clock.Now()
	if err := ownReader.read(&usage); err != nil {
		return Usage{}, fmt.Errorf("read the memory of this process: %w", err)
	}
	return usage, nil
}

var ownReader = newSelfReader()

type selfReader struct {
	mu      sync.Mutex
	samples []metrics.Sample
	sampled []func(*Usage) *int64 // fields for the samples from firstColumnSample on
	reading Usage                 // a field, because a local variable would escape to the heap
	// bucketOf maps each of the runtime's buckets of waiting times to a bucket of Waits.
	bucketOf []int
	// status stays open: a reading takes 9 µs, opening the file would add 30 µs.
	status *os.File
	text   [16 << 10]byte

	descriptors *os.File
	readings    int
	// others is the number of open descriptors that are not sockets.
	others int64
	own    OwnCalls // of all readings
}

// Indices of the samples that do not belong to a column. The samples of the columns follow.
const (
	gcPercentSample = iota
	runWaitSample
	firstColumnSample
)

func newSelfReader() *selfReader {
	reader := &selfReader{samples: []metrics.Sample{
		gcPercentSample: {Name: "/gc/gogc:percent"},
		runWaitSample:   {Name: "/sched/latencies:seconds"},
	}}
	for _, column := range columns {
		if column.metric != "" {
			reader.samples = append(reader.samples, metrics.Sample{Name: column.metric})
			reader.sampled = append(reader.sampled, column.of)
		}
	}
	metrics.Read(reader.samples)
	waits := reader.samples[runWaitSample].Value.Float64Histogram()
	for i := range waits.Counts {
		// The first bucket begins at minus infinity. It is always empty.
		low := math.Max(0, waits.Buckets[i])
		// Adding half a nanosecond rounds, because a float in seconds cannot hold 64 ns.
		reader.bucketOf = append(reader.bucketOf, waitBucketOf(time.Duration(low*1e9+0.5)))
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
	r.own.Usages++ // by ReadSelf
	usage.Go, usage.Own = r.reading.Go, r.own
	return nil
}

// readMemory reads the peak of memory from procfs. The peak of getrusage (ru_maxrss) would include
// the memory of the parent process at the time of its fork.
func (r *selfReader) readMemory(usage *Usage) error {
	if r.status == nil {
		status, err := os.Open("/proc/self/status")
		if err != nil {
			return err
		}
		r.status = status
	}
	count, err := r.status.ReadAt(r.text[:], 0)
	r.own.Preads += readsToEnd
	if err != nil && err != io.EOF {
		return err
	}
	usage.readMemory(r.text[:count])
	if usage.MaxRSSBytes == 0 {
		return errors.New("/proc/self/status has no line VmHWM")
	}
	return nil
}

// readsToEnd is the number of system calls that read a short file: the second finds its end.
const readsToEnd = 2

func (r *selfReader) readRuntime() {
	metrics.Read(r.samples)
	usage := &r.reading
	*usage = Usage{}
	for i, of := range r.sampled {
		if value := r.samples[firstColumnSample+i].Value; value.Kind() == metrics.KindFloat64 {
			*of(usage) = int64(value.Float64() * 1e9) // the runtime gives seconds
		} else {
			*of(usage) = int64(value.Uint64())
		}
	}
	usage.Go.GCPercent = -1 // the runtime gives MaxUint64 if the collector is off
	if percent := r.samples[gcPercentSample].Value.Uint64(); percent < math.MaxUint64 {
		usage.Go.GCPercent = max(1, int64(percent))
	}
	for i, waits := range r.samples[runWaitSample].Value.Float64Histogram().Counts {
		usage.Go.RunWait[r.bucketOf[i]] += int64(waits)
	}
}

// readingsPerRecount is the number of readings between two calls of countNonSockets. That function
// takes 0.4 µs per descriptor, and its result rarely changes.
const readingsPerRecount = 64

// readSockets subtracts the descriptors that are not sockets from the number of all descriptors,
// which is the size of /proc/self/fd (proc_pid_fd(5), since Linux 6.2).
func (r *selfReader) readSockets(usage *Usage) error {
	if r.descriptors == nil {
		folder, err := os.Open("/proc/self/fd")
		if err != nil {
			return fmt.Errorf("count sockets: %w", err)
		}
		r.descriptors = folder
	}
	open, err := descriptorCount(int(r.descriptors.Fd()))
	r.own.Fstats++
	if err != nil || open == 0 {
		return err
	}
	if r.readings%readingsPerRecount == 0 {
		var calls int64
		r.others, calls = countNonSockets(open)
		r.own.Fstats += calls
	}
	r.readings++
	usage.Sockets = max(0, open-r.others)
	return nil
}

// CountWriteCalls returns the number of write system calls (such as write and writev) of this
// process (syscw in Documentation/filesystems/proc.rst). It returns 0 if the kernel does not count
// them.
func CountWriteCalls() int64 {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	writes, _ := NumberAfterLabel(data, "\nsyscw")
	return writes
}

// WithStoppedTime returns a Source that also reads for how long the process was stopped by a
// control group's CPU quota, or because the machine was suspended. A reading takes 1 µs longer, and
// 2 µs more for each control group that can have a quota.
func WithStoppedTime(source Source) Source {
	throttle := host.OpenThrottle(os.Getpid())
	var preads, clocks atomic.Int64
	return func() (Usage, error) {
		usage, err := source()
		if err != nil {
			return usage, err
		}
		throttled, err := throttle.Read()
		if err != nil {
			return usage, fmt.Errorf("read how long a CPU quota stopped the process: %w", err)
		}
		usage.ThrottledNS, usage.ThrottledPeriods = throttled.TimeNS, throttled.Periods
		var calls int64
		usage.SuspendedNS, calls, err = suspendedTime()
		if ownPreads, ownClocks := preads.Add(int64(readsToEnd*throttle.Files())), clocks.Add(calls); usage.Own != (OwnCalls{}) {
			usage.Own.Preads, usage.Own.Clocks = usage.Own.Preads+ownPreads, usage.Own.Clocks+ownClocks
		}
		return usage, err
	}
}

// ReadProcess reads another process, in any language. The sum of UserNS and SystemNS is exact, but
// UserNS and SystemNS alone have errors of up to 10 ms. It does not count switches of ended
// threads. A reading takes 0.1 ms, and 20 µs per thread, so 10 readings per second are enough.
func ReadProcess(pid int) (Usage, error) {
	usage, err := readProcessFiles(host.Proc(), pid)
	if err != nil {
		return Usage{}, fmt.Errorf("read the resource usage of process %d: %w", pid, err)
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

// readProcessFiles reads all figures from procfs. Its CPU times have an error of up to 10 ms.
func readProcessFiles(proc fs.FS, pid int) (Usage, error) {
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
			continue // the thread has ended since ReadDir
		}
		if err != nil {
			return Usage{}, err
		}
		voluntary, found := NumberAfterLabel(status, "\nvoluntary_ctxt_switches")
		involuntary, foundToo := NumberAfterLabel(status, "\nnonvoluntary_ctxt_switches")
		if !found || !foundToo {
			return Usage{}, fmt.Errorf("/proc/%d/task/%s/status has no counts of context switches", pid, thread.Name())
		}
		usage.VoluntarySwitches += voluntary
		usage.InvoluntarySwitches += involuntary
	}
	return usage, nil
}

// parseStat parses /proc/PID/stat (proc_pid_stat(5)). Field 2, the name in parentheses, may contain
// any character, so it counts the other fields from the last parenthesis.
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
			return Usage{}, fmt.Errorf("parse /proc/PID/stat: it has %d fields, but needs 15 or more", len(fields)+firstField-1)
		}
		value, err := strconv.ParseInt(fields[field-firstField], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("parse field %d of /proc/PID/stat: %w", field, err)
		}
		*into = value
	}
	usage.UserNS *= int64(tick)
	usage.SystemNS *= int64(tick)
	return usage, nil
}

// readMemory reads the memory and the number of threads from /proc/PID/status. After the process
// has ended, the memory is 0.
func (u *Usage) readMemory(status []byte) {
	const kibibyte = 1024
	resident, _ := NumberAfterLabel(status, "\nVmRSS")
	peak, _ := NumberAfterLabel(status, "\nVmHWM")
	anonymous, _ := NumberAfterLabel(status, "\nRssAnon")
	u.RSSBytes, u.AnonBytes, u.MaxRSSBytes = resident*kibibyte, anonymous*kibibyte, peak*kibibyte
	u.Threads, _ = NumberAfterLabel(status, "\nThreads")
}

// NumberAfterLabel returns the number after a label in a procfs file. The label must begin with
// "\n", so that it matches only at the start of a line.
func NumberAfterLabel(status []byte, label string) (figure int64, found bool) {
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
