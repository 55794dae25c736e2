// Package cpusamples takes the call stacks of a server and its client while they are on a CPU, in
// user space and in the kernel in one stack, at a steady rate. It has two ways:
//
//  1. sample the CPUs, whatever runs on them, with the kernel's functions: as root, or with
//     CAP_PERFMON;
//  2. sample the processes' threads, in user space only, which an ordinary user may do.
package cpusamples

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/symbol"
)

const (
	// perSecond is the rate per CPU. It is no multiple of a timer's 100, 250 or 1000 Hz:
	// the timer's work would be in each sample or in none.
	perSecond = 997
	// threadsPerSecond is the rate of sampling threads: see perfevent.Sampler.
	threadsPerSecond = 99
	// drainEach is short enough that a CPU's samples have room until then.
	drainEach = 100 * time.Millisecond
	// mostSamples limits the samples that are kept per end: minutes of a CPU. At the limit every
	// second sample is dropped, and then only every second one is taken.
	mostSamples = 1 << 17
)

// Watch samples both ends.
type Watch struct {
	of      *perfevent.Sampler // all CPUs; nil: threads has the samplers
	threads [2]*perfevent.Sampler
	why     error // why CPUs cannot be sampled
	kept    [2]samples
	*probe.Collector
}

// samples holds every Nth of the samples that came.
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
	if len(s.list) == mostSamples {
		for i := range mostSamples / 2 {
			s.list[i] = s.list[2*i+1]
		}
		s.list = s.list[:mostSamples/2]
		s.each *= 2
	}
}

// Start samples all CPUs, or, if that is refused, the threads of the processes.
func Start() (probe.Watch, error) {
	w := &Watch{}
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
	w.Collector = probe.Collect(drainEach, w.drain)
	return w, nil
}

// drain keeps the samples of both ends.
func (w *Watch) drain(pids [2]int) error {
	keep := func(s perfevent.Sample) {
		for end, pid := range pids {
			if s.PID == pid {
				w.kept[end].add(s)
			}
		}
	}
	for _, sampler := range w.samplers() {
		if err := sampler.Drain(keep); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watch) samplers() []*perfevent.Sampler {
	return slices.DeleteFunc([]*perfevent.Sampler{w.of, w.threads[0], w.threads[1]}, func(s *perfevent.Sampler) bool { return s == nil })
}

// Coverage returns how it works.
func (w *Watch) Coverage() probe.Coverage {
	if w.of == nil {
		return probe.Coverage{
			Method:  fmt.Sprintf("perf events on the threads, in user space, %d times per second", threadsPerSecond),
			Missing: []string{fmt.Sprintf("the kernel's part: %v", w.why)},
		}
	}
	a := probe.Coverage{Method: fmt.Sprintf("perf events on the CPUs, %d times per second", perSecond)}
	if _, err := symbol.OfKernel(); err != nil {
		a.Missing = []string{err.Error()}
	}
	return a
}

// Process sets the process at an end.
func (w *Watch) Process(end probe.End, pid int) error {
	return w.Collector.Process(end, pid, func() (err error) {
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
	})
}

// Stop returns the stacks of the window.
func (w *Watch) Stop(window probe.Measured) (probe.Findings, error) {
	programs, err := w.Collector.Stop()
	var lost int64
	for _, sampler := range w.samplers() {
		lost += sampler.Lost()
		err = errors.Join(err, sampler.Close())
	}
	if err != nil {
		return probe.Findings{}, err
	}
	rate := int64(perSecond)
	if w.of == nil {
		rate = threadsPerSecond
	}
	return probe.Gather(programs, w.Coverage(), lost, func(end int, to *probe.Stacks) error {
		kept := &w.kept[end]
		for _, s := range kept.list {
			if window.BeginNS <= s.AtNS && s.AtNS < window.EndNS {
				to.Add(s.User, s.Kernel, kept.each*int64(time.Second)/rate)
			}
		}
		return nil
	})
}
