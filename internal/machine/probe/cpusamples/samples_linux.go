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
	"slices"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/symbol"
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
	// maxSamples limits the samples of a process. At the limit, half of the samples are dropped,
	// and later only half as many are kept.
	maxSamples = 1 << 17
)

// A Watch samples the call stacks of the server and the client.
type Watch struct {
	of      *perfevent.Sampler // samples all CPUs; nil means that threads are sampled
	threads [2]*perfevent.Sampler
	why     error // why the CPUs cannot be sampled
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
	if w.of, err = perfevent.StartSampler(cpuSampleRate, runtime.NumCPU()); err != nil {
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
	return a
}

// SetProcess starts to sample the server's or the client's process.
func (w *Watch) SetProcess(end probe.End, pid int) error {
	return w.Collector.SetProcess(end, pid, func() (err error) {
		if w.of != nil {
			return nil
		}
		if w.threads[end] != nil {
			err = w.threads[end].Close()
		}
		var refused error
		if w.threads[end], refused = perfevent.StartThreadSampler(threadSampleRate, runtime.NumCPU(), pid); refused != nil {
			return errors.Join(err, fmt.Errorf("sample the threads of process %d: %w", pid, refused))
		}
		return err
	})
}

// Stop returns the stacks that were sampled within the window.
func (w *Watch) Stop(window probe.MeasuredWindow) (probe.Findings, error) {
	programs, err := w.Collector.Stop()
	var lost int64
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
	return probe.GatherStacks(programs, w.Coverage(), lost, func(end int, to *probe.Stacks) error {
		kept := &w.kept[end]
		for _, s := range kept.list {
			if window.BeginNS <= s.AtNS && s.AtNS < window.EndNS {
				to.Add(s.User, s.Kernel, kept.each*int64(time.Second)/rate)
			}
		}
		return nil
	})
}
