// Package http2 is the client's end of an HTTP/2 connection whose requests are encoded
// before, and whose answers are read as far as status and length.
//
//	Request ── Machine.Start ──> output (batchio writes it)
//	bytes ──> Machine.Feed ──> Stream: Status, Bytes, … ──> Machine.TakeEnded
//
// A [Machine] is a pure state machine for one connection: it opens no socket, starts no
// goroutine and takes no lock. It knows gRPC's messages and status, since they end calls.
//
// What a server can make it keep is bounded: a header block (maxBlock), decoded fields of
// one block (maxFields), cached blocks (cacheSize of maxCached), answers to its frames
// (maxAnswers, after which it is not read), and frames without use (credit). Callers own
// the memory of streams.
//
// The package must not know sockets, nor the clock.
package http2
