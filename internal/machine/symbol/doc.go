// Package symbol names the functions that program counters of other processes and of the
// kernel lie in.
//
// For processes that run this very program the Go runtime is asked, which also knows inlined
// functions. For other programs the symbols of their files are used: Go's own table, or ELF's.
// A counter without a known function is named after its file.
package symbol
