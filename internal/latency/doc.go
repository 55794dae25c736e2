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
// Data passes one way: workers record without sharing anything, the window
// ends, the recorders are merged, the result is encoded. Buckets span 1 ns to
// 60 s with three significant digits, as HdrHistogram lays them out; count,
// sum, minimum and maximum are kept exactly beside them.
//
// What a worker records into lies outside the Go heap. Some hundred recorders
// of 216 KiB inside it would be ballast: the garbage collector starts a cycle
// when the heap has doubled, so the client under test would collect many times
// less often than it does in its users' programs, and the instrument would have
// changed what it measures.
//
// The package must not know of stacks, workloads or rates, nor what a difference
// between two distributions means.
package latency
