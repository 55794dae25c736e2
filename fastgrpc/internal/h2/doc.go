// Package h2 is the part of HTTP/2 (RFC 9113) that gRPC needs, as a pure state
// machine: bytes and a clock reading go in, events and bytes to send come out.
// It opens no socket, starts no goroutine and takes no lock, so a test can play
// any order of frames against it; the connection shell in package fastgrpc owns
// the socket and the mutex that guards a [Conn].
//
// How data passes through it:
//
//	received bytes ── Conn.Feed ──> Handler.OnHeaders, OnData, OnReset …
//	Conn.SendHeaders, SendData … ──> Output ── Conn.TakeOutput ──> bytes to write
//
// Words used here. A frame, a stream and a window are RFC 9113's. A block is one
// HPACK header block, whole. A payload is a piece of a DATA frame's content with
// its owner. A stream is parked while its peer's window keeps its payloads back,
// and in line while only the connection does.
//
// It must not know gRPC: message prefixes, statuses and metadata are the shell's.
package h2
