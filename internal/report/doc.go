// Package report shows what analysis found: as a table for a terminal, as an
// HTML page that opens from a file, and in the formats that other tools read.
//
// Data passes one way and once: an [analysis.Summary], the sentences that
// package advice made of it and, where a format wants every trial, the records
// come in as a [Run]; text goes out to the writer that was handed in. Each
// format is one file and one line of [Formats].
//
// Nothing is computed here but the choice of a unit: a figure that two formats
// show is the same figure, and what a cell has no valid trial for is left
// empty in all of them. The package must not know how anything was measured,
// nor hold an opinion on it.
package report
