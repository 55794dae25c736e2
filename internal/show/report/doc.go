// Package report shows what analysis found: as an HTML page that opens from a file, as a
// JSON object, and in the formats that other tools read. Its folders show the rest:
//
//	format   numbers, times and paragraphs as texts
//	table    cells as tables and paragraphs for a terminal
//	gate     the outcomes of gates, and what changed since an earlier run
//	export   records and profiles in the formats of other tools
//
// A report is written in three steps:
//
//  1. A [Run] comes in: an [analysis.Summary], the sentences that package advice
//     wrote about it, and the records, for formats that show every trial.
//  2. Columns, notes and the JSON object are chosen from the figures and their tags.
//  3. Text goes out to the given writer. Each format is one file and one line of
//     [Formats].
//
// Only units are chosen here; no figure is computed. A cell without a valid trial
// is empty in every format. The package must not know how anything was measured,
// and must not say what is good or bad.
package report
