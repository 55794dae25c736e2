// Package probe reads the kernel's and the Go runtime's figures of a process:
// processor time, memory, switches, faults, collections, and how long goroutines
// waited to run.
//
//  1. [Self] reads the calling process, [OfProcess] any other.
//  2. A [Sampler] reads one of them periodically until the worker ends, because a
//     worker does not know when the measured window will be.
//  3. The resulting [Series] is sent as JSON to the lab, which knows the window.
//  4. [Series.Between] returns the part in the window.
//
// Instants come from internal/base/clock, which all processes of a machine share.
//
// The package must not know what the process was doing: no stack, no load.
//
// Glossary
//
//	counter  a figure that only grows: a difference of two readings means something
//	gauge    a figure that stands for itself, such as the number of goroutines
//	fault    a page that the process touched and the kernel had to provide;
//	         minor if without reading it from a disk
//	switch   a thread giving up its CPU: voluntary to wait, involuntary when
//	         the scheduler takes it away
package probe
