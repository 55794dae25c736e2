// Package latency records how long requests took, and keeps what was recorded.
//
// Data passes in one direction:
//
//  1. Each client of a trial records durations into a [Recorder] of its own until
//     the window ends; if the scenario asks for it, it also keeps every single
//     sample in a [SampleLog].
//  2. The recorders are merged into a [Histogram], which gives quantiles.
//  3. [Histogram.Distribution] encodes it for a record: the exact totals, and an
//     HdrHistogram V2 string, which tools in any language read.
//  4. [WriteParquet] writes the sample logs of a trial to one file.
//
// Beside that, a [Coarse] histogram of two digits is read from a [CoarseRecorder] while it
// records, to be sent often and merged with those of other processes.
//
// Buckets span 1 ns to 60 s with three significant digits, as in HdrHistogram;
// count, sum, minimum and maximum are exact.
//
// Recorders use memory outside the Go heap. Some hundred recorders of 216 KiB on
// the heap would make it larger, and the garbage collector starts a cycle when the
// heap has doubled: the client under test would collect far less often than in
// users' programs.
//
// The package must not know stacks, workloads or rates, nor what a difference
// between two distributions means.
package latency
