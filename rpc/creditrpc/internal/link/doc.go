// Package link is the state of one connection, without its socket: frames come in, frames go
// out, and a [Handler] hears of calls. It has no lock and starts no goroutine; package
// batchio feeds it and writes what it puts out.
//
// What may be sent is decided by package credit, and what frames look like by package frame.
package link
