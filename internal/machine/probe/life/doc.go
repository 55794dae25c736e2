// Package life divides single calls into stages, with one call in flight: when the request was
// written, when it reached the server's socket, when a thread of the server got a CPU, when the
// thread had read it, when the handler ran, and the same on the way back.
//
//	call begins ─ write ─ at the server's socket ─ server runs ─ reads ─ has read ─ handler
//	                                                                                   │
//	call ends ─ has read ─ reads ─ client runs ─ at the client's socket ─ write ─ handler ends
//
// Programs in the kernel note the instants of system calls, of arriving data and of threads
// that get a CPU; the processes themselves note the instants of calls and handlers. All use
// CLOCK_MONOTONIC. The programs run by turns, so that the calls in between show their cost;
// if calls are slow, they run all the time.
//
// tell combines the instants. It is arithmetic alone, and also works without the kernel's
// instants, with three stages in place of thirteen.
package life
