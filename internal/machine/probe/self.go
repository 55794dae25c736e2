package probe

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/metrics"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
)

// Source takes one reading of a process.
type Source func() (Usage, error)

// Self reads the calling process. It allocates nothing and may be called
// concurrently.
//
// Processor time is exact for threads that are off their CPU, and up to one
// timer tick (1 to 10 ms) old for those running on another.
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

// The order of the samples.
const (
	heapLive = iota
	goroutines
	allocatedBytes
	allocatedObjects
	gcCycles
	gcCPU
	gcAssist
	gcPercent
	runWait
)

func newSelfReader() *selfReader {
	reader := &selfReader{samples: []metrics.Sample{
		heapLive:         {Name: "/gc/heap/live:bytes"},
		goroutines:       {Name: "/sched/goroutines:goroutines"},
		allocatedBytes:   {Name: "/gc/heap/allocs:bytes"},
		allocatedObjects: {Name: "/gc/heap/allocs:objects"},
		gcCycles:         {Name: "/gc/cycles/total:gc-cycles"},
		gcCPU:            {Name: "/cpu/classes/gc/total:cpu-seconds"},
		gcAssist:         {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
		gcPercent:        {Name: "/gc/gogc:percent"},
		runWait:          {Name: "/sched/latencies:seconds"},
	}}
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
	r.readRuntime(&usage.Go)
	return nil
}

// readMemory takes the peak from procfs, not from getrusage: ru_maxrss of a
// process also holds what its parent had resident when it forked (the memory
// is shared until exec), so that a worker would report its controller's peak.
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

func (r *selfReader) readRuntime(usage *GoUsage) {
	metrics.Read(r.samples)
	count := func(sample int) int64 { return int64(r.samples[sample].Value.Uint64()) }
	usage.HeapLiveBytes = count(heapLive)
	usage.Goroutines = count(goroutines)
	usage.AllocatedBytes = count(allocatedBytes)
	usage.AllocatedObjects = count(allocatedObjects)
	usage.GCCycles = count(gcCycles)
	usage.GCNS = int64(r.samples[gcCPU].Value.Float64() * 1e9)
	usage.GCAssistNS = int64(r.samples[gcAssist].Value.Float64() * 1e9)
	usage.GCPercent = -1 // a collector that is off shows as the largest value there is
	if percent := r.samples[gcPercent].Value.Uint64(); percent < math.MaxUint64 {
		usage.GCPercent = max(1, int64(percent))
	}
	for i, waits := range r.samples[runWait].Value.Float64Histogram().Counts {
		usage.RunWait[r.bucketOf[i]] += int64(waits)
	}
}
