// Package probe says what the kernel and the Go runtime saw of a process while
// it was measured: processor time, memory, switches, faults, collections, and
// how long goroutines waited to run.
//
// [Self] reads the calling process, [OfProcess] any other. A [Sampler] reads
// one of them at a steady period for as long as a worker lives, because a
// worker does not know where in its life the measured window will lie. The
// [Series] that remains travels as JSON to whoever knows the window, and
// [Series.Between] cuts it out. Instants are those of internal/clock, which all
// processes of a machine share.
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
