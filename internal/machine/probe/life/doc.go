// Package life tells the stages of single calls apart, with one call in flight: when its
// request was written, when it lay at the server's socket, when a thread of the server got
// a CPU, when it had read it, when the handler ran, and so back.
//
//	call begins ─ write ─ at the server's socket ─ server runs ─ reads ─ has read ─ handler
//	                                                                                   │
//	call ends ─ has read ─ reads ─ client runs ─ at the client's socket ─ write ─ handler ends
//
// Programs in the kernel note the instants of system calls, of arriving data and of threads
// that get a CPU; the processes themselves note those of the calls and handlers. All use
// CLOCK_MONOTONIC. The programs run by turns, so that the calls between tell what they cost;
// where calls are slow, they run all the time.
//
// tell puts the instants together. It is arithmetic alone, and works without the kernel's
// instants, too, with three stages in place of thirteen.
package life
