// Package h2 implements HTTP/2 (RFC 9113) for clients and servers, as a pure state
// machine: bytes and a clock reading go in, events and bytes to send come out. It opens no
// socket, starts no goroutine and takes no lock, so a test can feed it frames in any order.
// Package batchio owns the socket and the mutex that guards a [Conn], which is a
// batchio.Machine.
//
// How bytes pass through it:
//
//	          socket                                          socket
//	            │ bytes                                          ^ bytes
//	            v                                                │
//	      ┌─ Conn.Feed ─┐                                 Conn.TakeOutput
//	      │   frames    │                                        ^
//	      v             v                                        │ frames
//	header blocks     control frames ── replies ───────────> batchio.Output
//	(decoder)         (budget)                                   ^
//	      │             │                                        │ windows allow,
//	      v             v                                        │ in turn
//	Handler.OnHeaders, OnData,                            streams' queues
//	OnReset, OnGoAway, …                                         ^
//	      │                                                      │
//	      v                                                      │
//	   the owner ────── Conn.Consume ──> windows                 │
//	      └──────────── Conn.SendHeaders, SendData, SendTrailers ┘
//
// A client makes a request with [Conn.Open], SendHeaders and SendData; a request without
// content with Open and SendTrailers. A server gets requests in [Handler.OnHeaders],
// answers with SendHeaders, SendData and SendTrailers, and calls [Conn.Release] when its
// handler has returned.
//
// Terms:
//
//   - Frame, stream and window have RFC 9113's meaning.
//   - A block is one complete HPACK header block.
//   - A payload is content for DATA frames, with the owner of its memory.
//   - A stream with queued payloads is scheduled unless its own window is exhausted.
//     Scheduled streams send in turn when the connection's window and output allow.
//   - A stream holds a slot from its request until its handler has returned.
//
// Everything that a peer can make this end keep or do is bounded: memory by three accounts
// (memory.go), and frames of no use by a budget (budget.go).
//
// This package must not know gRPC: message prefixes, statuses and metadata belong to its
// owners.
package h2
