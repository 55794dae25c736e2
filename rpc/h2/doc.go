// Package h2 implements the part of HTTP/2 (RFC 9113) that gRPC needs, as a pure state
// machine: bytes and a clock reading go in, events and bytes to send come out.
// It opens no socket, starts no goroutine and takes no lock, so a test can feed it
// frames in any order. Package batchio owns the socket and the mutex that guards a [Conn],
// which is its Machine.
//
// How data passes through it:
//
//	received bytes ── Conn.Feed ──> Handler.OnHeaders, OnData, OnReset …
//	Conn.SendHeaders, SendData … ──> Output ── Conn.TakeOutput ──> bytes to write
//
// Terms:
//
//   - Frame, stream and window are RFC 9113's.
//   - A block is one complete HPACK header block.
//   - A payload is content for DATA frames and the owner of its memory.
//   - A stream with queued payloads is scheduled unless its own window is exhausted.
//     Scheduled streams send in turn when the connection's window and output allow.
//   - A stream holds a slot from its request until its handler has returned.
//
// This package must not know gRPC: message prefixes, statuses and metadata belong to
// package fastgrpc.
package h2
