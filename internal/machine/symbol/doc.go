// Package symbol names the functions that program counters of other processes and of the
// kernel lie in.
//
// A process that runs this very program is asked of the Go runtime, which knows functions
// that were inlined too. Other programs are looked up in the symbols of their files: Go's
// own table, or that of ELF. A counter of which no name is known is named after its file.
package symbol
