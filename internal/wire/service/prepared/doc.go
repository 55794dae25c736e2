// Package prepared carries calls whose requests are known before the window, at the least
// cost to the client: requests are encoded once, to the bytes that go out, and answers are
// read as far as status and length.
//
//	Definition.Requests ── encode, once ──> request
//	                                           │ Client.Call
//	                                           v
//	 HTTP/1.1: a caller's goroutine writes it, waits, and parses the answer (http1.Parser)
//	 HTTP/2, gRPC: callers append frames to a shared connection (http2.Machine), which
//	 batchio writes many at a time; its reader parses frames in place, wakes callers
//
// No call starts a timer: one goroutine, the watch, looks a few times in a call's timeout
// for calls that have taken too long or whose context has ended.
//
// What it cannot do, [Can] says; package library does all.
//
// Glossary:
//
//	seat   what belongs to one caller, kept in its Answer between calls
//	slot   a place for a connection of HTTP/1.1, which one caller uses at a time
//	link   a place for a connection of HTTP/2, which callers share
//	tick   the watch's clock, which counts its looks
//
// This package must not know when calls are sent, nor what a right answer is.
package prepared
