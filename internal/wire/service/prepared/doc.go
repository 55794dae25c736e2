// Package prepared carries calls whose requests are known before the window, at the least
// cost to the client: requests are encoded once, and answers are read only for their status
// and length.
//
//	Definition.Requests ── encode, once ──> request
//	                                           │ Client.Call
//	                                           v
//	 HTTP/1.1: a caller's goroutine writes it, waits, and parses the answer (http1.Parser)
//	 HTTP/2, gRPC: callers append frames to a shared connection (rpc/h2), which batchio
//	 writes many at a time; its reader counts the answers' bytes and wakes callers
//
// No call starts a timer. One goroutine, the watch, looks several times per timeout for
// calls that have taken too long or whose context has ended.
//
// [Can] reports whether this package can carry a plan's calls. Package library carries all
// others.
//
// Terms:
//
//   - A slot is a place for one connection after another. An HTTP/1.1 slot serves one caller
//     at a time; an HTTP/2 slot serves many at once.
//   - A caller's state is kept in its Answer between calls, with the slot it uses.
//   - A tick is one look of the watch. Times are counted in ticks.
//
// This package must not know when calls are sent, nor what a right answer is.
package prepared
