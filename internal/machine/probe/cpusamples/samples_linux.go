// Package cpusamples samples the call stacks of a server and its client while they run on a CPU. It
// works in one of two ways:
//
//  1. It samples all CPUs, which needs root or CAP_PERFMON. A stack then includes functions of the
//     kernel.
//  2. It samples the processes' threads in user space, for which ordinary users have the rights.
package cpusamples

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/symbol"
	"wirelab.dev/internal/machine/unwind"
)

const (
	// cpuSampleRate is the number of samples per second on each CPU. It is not a multiple of a
	// timer's 100, 250 or 1000 Hz. Otherwise every sample, or no sample, would show the timer's
	// work.
	cpuSampleRate = 997
	// threadSampleRate is low, because sampling threads is expensive (see perfevent.Sampler).
	threadSampleRate = 99
	// drainPeriod is so short that a CPU's ring does not become full.
	drainPeriod = 100 * time.Millisecond
	// stackBytes is the size of the copy of a thread's stack, if functions may lack frame pointers.
	stackBytes = 16 << 10
	// maxSamples limits the samples of a process. At the limit, half of the samples are dropped,
	// and later only half as many are kept.
	maxSamples = 1 << 17
)

// A Watch samples the call stacks of the server and the client.
type Watch struct {
	of      *perfevent.Sampler       // samples all CPUs; nil means that threads are sampled
	threads []*perfevent.Sampler     // of the processes
	why     error                    // why the CPUs cannot be sampled
	copying error                    // why stacks are not copied
	lost    int64                    // samples of an earlier sampler
	unwinds map[int]*unwind.Unwinder // by PID, of programs other than this one; nil if there is none
	kept    [2]samples
	*probe.Collector
}

// samples holds every Nth sample of a process.
type samples struct {
	list       []perfevent.Sample
	each, came int64
}

func (s *samples) add(one perfevent.Sample) {
	s.each = max(1, s.each)
	s.came++
	if s.came%s.each != 0 {
		return
	}
	s.list = append(s.list, one)
	if len(s.list) == maxSamples {
		for i := range maxSamples / 2 {
			s.list[i] = s.list[2*i+1]
		}
		s.list = s.list[:maxSamples/2]
		s.each *= 2
	}
}

// Start samples all CPUs. If the kernel refuses, it samples the threads of the processes.
func Start() (probe.Watch, error) {
	w := &Watch{}
	var err error
	if w.of, err = perfevent.StartSampler(cpuSampleRate, runtime.NumCPU(), 0); err != nil {
		if !errors.Is(err, host.ErrUnsupported) {
			return nil, fmt.Errorf("sample CPUs: %w", err)
		}
		own, refused := perfevent.StartThreadSampler(threadSampleRate, runtime.NumCPU(), os.Getpid())
		if refused != nil {
			return nil, fmt.Errorf("sample threads: %w", refused)
		}
		if refused := own.Close(); refused != nil {
			return nil, refused
		}
		w.why = err
	}
	w.Collector = probe.StartCollector(drainPeriod, w.drain)
	return w, nil
}

func (w *Watch) drain(ends map[int]probe.End) error {
	var all []perfevent.Sample
	var forks []perfevent.Fork
	for _, sampler := range w.samplers() {
		err := sampler.Drain(func(s perfevent.Sample) { all = append(all, w.unwound(s)) }, func(f perfevent.Fork) { forks = append(forks, f) })
		if err != nil {
			return err
		}
	}
	for before := -1; before < len(ends); { // a child may have children on another CPU, which come first
		before = len(ends)
		for _, f := range forks {
			if end, watched := ends[f.Parent]; watched {
				ends[f.Child] = end
			}
		}
	}
	for _, s := range all {
		if end, watched := ends[s.PID]; watched {
			w.kept[end].add(s)
		}
	}
	return nil
}

// unwound returns a sample with the longer one of its two call stacks: by frame pointers, as the kernel finds it,
// and by the descriptions of the functions.
func (w *Watch) unwound(s perfevent.Sample) perfevent.Sample {
	if u := w.unwinds[s.PID]; u != nil && len(s.Stack) > 0 {
		if stack := u.Unwind(s.Registers, s.Stack); len(stack) > len(s.User) {
			s.User = stack
		}
	}
	s.Stack = nil // it will be overwritten
	return s
}

// copyStacks makes the sampler copy stacks from now on, if a process runs a program other than this one.
func (w *Watch) copyStacks(pid int) error {
	u, err := unwind.New(pid)
	if err != nil || u == nil {
		return err
	}
	if w.unwinds == nil {
		w.unwinds = map[int]*unwind.Unwinder{}
		var copies *perfevent.Sampler
		// It fails if too little memory may be locked, for example. Then the sampler goes on as it is.
		if copies, w.copying = perfevent.StartSampler(cpuSampleRate, runtime.NumCPU(), stackBytes); w.copying == nil {
			w.lost += w.of.LostSamples()
			err = w.of.Close()
			w.of = copies
		}
	}
	w.unwinds[pid] = u
	return err
}

func (w *Watch) samplers() []*perfevent.Sampler {
	if w.of != nil {
		return []*perfevent.Sampler{w.of}
	}
	return w.threads
}

// Coverage returns how the probe works here.
func (w *Watch) Coverage() probe.Coverage {
	if w.of == nil {
		return probe.Coverage{
			Method:  fmt.Sprintf("perf events on the threads, in user space, %d times per second", threadSampleRate),
			Missing: []string{fmt.Sprintf("functions of the kernel: %v", w.why)},
		}
	}
	a := probe.Coverage{Method: fmt.Sprintf("perf events on the CPUs, %d times per second", cpuSampleRate)}
	if _, err := symbol.LoadKernel(); err != nil {
		a.Missing = []string{err.Error()}
	}
	if w.copying != nil {
		a.Missing = append(a.Missing, fmt.Sprintf("callers of functions without frame pointers: %v", w.copying))
	}
	return a
}

// AddProcess starts to sample a process of the server or the client.
func (w *Watch) AddProcess(end probe.End, pid int) error {
	return w.Collector.AddProcess(end, pid, func() error {
		if w.of != nil {
			return w.copyStacks(pid)
		}
		sampler, err := perfevent.StartThreadSampler(threadSampleRate, runtime.NumCPU(), pid)
		if err != nil {
			return fmt.Errorf("sample the threads of process %d: %w", pid, err)
		}
		w.threads = append(w.threads, sampler)
		return nil
	})
}

// Stop returns the stacks that were sampled within the window.
func (w *Watch) Stop(window probe.MeasuredWindow) (probe.Findings, error) {
	watched, err := w.Collector.Stop()
	lost := w.lost
	for _, sampler := range w.samplers() {
		lost += sampler.LostSamples()
		err = errors.Join(err, sampler.Close())
	}
	if err != nil {
		return probe.Findings{}, err
	}
	rate := int64(cpuSampleRate)
	if w.of == nil {
		rate = threadSampleRate
	}
	return probe.GatherStacks(watched, w.Coverage(), lost, func(end probe.End, to *probe.Stacks) error {
		kept := &w.kept[end]
		for _, s := range kept.list {
			if window.BeginNS <= s.AtNS && s.AtNS < window.EndNS {
				to.Add(s.PID, s.User, s.Kernel, kept.each*int64(time.Second)/rate)
			}
		}
		return nil
	})
}
