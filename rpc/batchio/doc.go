// Package batchio carries a connection of an RPC library over a socket. It owns the
// lock, a goroutine that reads and one that writes; a [Machine], which the library
// implements as a pure state machine, owns the protocol.
//
// How data passes through it:
//
//	caller ─ frames ─> Machine's Output ─> Conn.Flush ─> writer ─┐
//	                                                             socket
//	Role.StartCalls <─ Machine.Feed <─ chunk (Buffer) <─ reader ─┘
//
// Terms:
//
//   - An [Output] holds frames of many callers, which one write sends.
//   - A chunk is a [Buffer] that the reader reads into. Received messages may retain it
//     instead of being copied.
//   - A lent chunk is one that messages retain while the reader waits and has none.
//   - A batch ends when its calls are most of the open ones, see [Conn.FlushBatch].
//
// This package must not know any protocol: neither the content of frames nor gRPC.
package batchio
