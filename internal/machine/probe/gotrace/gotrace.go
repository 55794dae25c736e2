// Package gotrace divides calls into stages by the execution traces of the two Go processes that make
// and handle them, with many calls in flight and on any kind of connection.
//
//	worker ── Recorder ──> traces, one file per turn ── Watch ──> timelines ── divideCall ──> record.Life
//
// A call and its handler are regions of the same name. From the end of a region the package goes
// back from goroutine to goroutine, by who woke whom, to the instant at which the process noticed
// that the message had come; and from its begin forward to the instant at which the message was
// written. What each goroutine did on this way is known: it ran, it waited for a CPU of the runtime,
// for a lock, for a window, or the collector took its time. The machine's scheduler adds when
// other programs had the CPU.
//
// The package must not know stacks, workloads or loads.
//
// Glossary
//
//	turn      a time in which both workers trace themselves; between turns they do not
//	timeline  what the goroutines of a process did in a turn
//	trail     the way of a message through the goroutines of the process that received it
//	arrival   when a process noticed a message, and since when a goroutine had waited for it
package gotrace

// CallRegion begins the name of the region of a call and of its handler. A number below MaxInFlight
// follows.
const (
	CallRegion  = "wirelab call "
	MaxInFlight = 4096
)
