// Package link is the state of one connection, without its socket: frames come in, frames go
// out, and a [Handler] hears of calls. It has no lock and starts no goroutine; package
// batchio feeds it and writes what it puts out.
//
// Package credit decides what may be sent, and package frame defines the frames.
package link
