package cpusamples

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"wirelab.dev/internal/host"
	"wirelab.dev/internal/perfevent"
	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/symbol"
)

const (
	// perSecond of each CPU. It is no multiple of a timer's 100, 250 or 1000 Hz, whose work
	// would be in each sample or in none.
	perSecond = 997
	// threadsPerSecond is for threads: see perfevent.Sampler.
	threadsPerSecond = 99
	// drainEach is short enough for a CPU's samples to have room until then.
	drainEach = 100 * time.Millisecond
)

// Watch samples both ends.
type Watch struct {
	guard   sync.Mutex
	of      *perfevent.Sampler // of all CPUs; nil: threads has the samplers
	threads [2]*perfevent.Sampler
	why     error // there is none of all CPUs
	pids    [2]int
	symbols [2]*symbol.Process
	samples [2][]perfevent.Sample
	failed  error
	stop    chan struct{}
	done    chan struct{}
}

// Start samples all CPUs, or where that is refused the threads of the processes. It fails
// with host.ErrUnsupported where that is refused, too.
func Start() (*Watch, error) {
	w := &Watch{stop: make(chan struct{}), done: make(chan struct{})}
	var err error
	if w.of, err = perfevent.StartSampler(perSecond, runtime.NumCPU()); err != nil {
		if !errors.Is(err, host.ErrUnsupported) {
			return nil, fmt.Errorf("sample CPUs: %w", err)
		}
		own, refused := perfevent.StartThreadSampler(threadsPerSecond, runtime.NumCPU(), os.Getpid())
		if refused != nil {
			return nil, fmt.Errorf("sample threads: %w", refused)
		}
		if refused := own.Close(); refused != nil {
			return nil, refused
		}
		w.why = err
	}
	go w.run()
	return w, nil
}

func (w *Watch) run() {
	defer close(w.done)
	ticks := time.NewTicker(drainEach)
	defer ticks.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-ticks.C:
			w.drain()
		}
	}
}

// drain keeps the samples of both ends, and looks up what they run, as they may end at
// any time.
func (w *Watch) drain() {
	w.guard.Lock()
	defer w.guard.Unlock()
	for end, pid := range w.pids {
		if pid == 0 {
			continue
		}
		if symbols, err := symbol.Of(pid); err == nil {
			w.symbols[end] = symbols
		}
	}
	keep := func(s perfevent.Sample) {
		for end, pid := range w.pids {
			if s.PID == pid {
				w.samples[end] = append(w.samples[end], s)
			}
		}
	}
	for _, sampler := range []*perfevent.Sampler{w.of, w.threads[0], w.threads[1]} {
		if sampler != nil && w.failed == nil {
			w.failed = sampler.Drain(keep)
		}
	}
}

// Ability is how it sees.
func (w *Watch) Ability() probe.Ability {
	if w.of == nil {
		return probe.Ability{
			Method:  fmt.Sprintf("perf events on the threads, in user space, %d a second", threadsPerSecond),
			Missing: []string{fmt.Sprintf("the kernel's part: %v", w.why)},
		}
	}
	a := probe.Ability{Method: fmt.Sprintf("perf events on the CPUs, %d a second", perSecond)}
	if _, err := symbol.OfKernel(); err != nil {
		a.Missing = []string{err.Error()}
	}
	return a
}

// Process says which process is at an end.
func (w *Watch) Process(end probe.End, pid int) (err error) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.pids[end] = pid
	if w.of != nil {
		return nil
	}
	if w.threads[end] != nil {
		err = w.threads[end].Close()
	}
	var refused error
	if w.threads[end], refused = perfevent.StartThreadSampler(threadsPerSecond, runtime.NumCPU(), pid); refused != nil {
		return errors.Join(err, fmt.Errorf("sample the threads of a process: %w", refused))
	}
	return err
}

// Stop returns the stacks of the window.
func (w *Watch) Stop(window probe.Measured) (sight probe.Sight, err error) {
	close(w.stop)
	<-w.done
	w.drain()
	err = w.failed
	var lost int64
	for _, sampler := range []*perfevent.Sampler{w.of, w.threads[0], w.threads[1]} {
		if sampler != nil {
			lost += sampler.Lost()
			err = errors.Join(err, sampler.Close())
		}
	}
	if err != nil {
		return sight, err
	}
	for end, pid := range w.pids {
		if pid == 0 || w.symbols[end] == nil {
			continue
		}
		seen := sight.Of(probe.End(end))
		if seen.Stacks, err = w.stacks(end, window.Span, seen); err != nil {
			return sight, err
		}
		seen.Stacks.Lost = lost
	}
	return sight, nil
}

func (w *Watch) stacks(end int, window probe.Span, seen *record.Seen) (*record.Stacks, error) {
	rate := perSecond
	if w.of == nil {
		rate = threadsPerSecond
	}
	ability := w.Ability()
	seen.Method, seen.Missing = ability.Method, ability.Missing
	stacks, err := probe.NewStacks("ns", w.symbols[end])
	if err != nil && !errors.Is(err, host.ErrUnsupported) { // those are among what is missing
		return nil, err
	}
	for _, s := range w.samples[end] {
		if window.BeginNS <= s.AtNS && s.AtNS < window.EndNS {
			stacks.Add(s.User, s.Kernel, int64(time.Second)/int64(rate))
		}
	}
	return stacks.Done(), nil
}
