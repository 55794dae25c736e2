// Package latency records how long requests took, and keeps what was recorded.
//
// Glossary. A [Recorder] belongs to one worker and counts durations into
// buckets while the window runs. A [Histogram] joins the recorders of many
// workers afterwards and answers questions; encoded it is an HdrHistogram V2
// string that tools in any language read, and a [Distribution] is the same with
// its exact figures, as it stands in a record. A [SampleLog], also of one
// worker, keeps every single sample where the scenario asks for that; the logs
// of a trial become one Parquet file.
//
// Data passes in one direction:
//
//  1. Workers record, each into its own recorder, until the window ends.
//  2. The recorders are merged into a histogram.
//  3. The histogram is encoded.
//
// Buckets span 1 ns to 60 s with three significant digits, as in HdrHistogram;
// count, sum, minimum and maximum are exact.
//
// Recorders use memory outside the Go heap. Some hundred recorders of 216 KiB on
// the heap would make it larger, and the garbage collector starts a cycle when the
// heap has doubled: the client under test would collect far less often than in
// users' programs.
//
// The package must not know of stacks, workloads or rates, nor what a difference
// between two distributions means.
package latency
