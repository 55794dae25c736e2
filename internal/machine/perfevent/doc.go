// Package perfevent opens events of the kernel's perf subsystem, perf_event_open(2): a
// [Counter] counts for all threads of a process, and a [Sampler] takes call stacks on the
// CPUs. An error for a refused event wraps [host.ErrUnsupported] and says what is needed.
package perfevent
