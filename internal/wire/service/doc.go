// Package service calls a service of the user's own. It holds the requests, the wires that
// carry them, and the conditions of a right answer.
//
//		target, method, data ─> Definition ── JSON ──> worker: Open ─> Client
//		(the command line)                                 │             ▲ Call(Request) → Answer
//		                                                   └─> Caller ───┘
//
//	 1. The command line becomes a [Definition], which has all that a worker needs: no file
//	    is read and no name is looked up in a trial.
//	 2. A worker makes a [Client] of it, which opens the connections, and one [Caller]
//	    per client of the load.
//	 3. A Caller takes the next request, has the Client carry it, and, when the clock has
//	    stopped, checks the answer.
//
// Glossary:
//
//	wire      the protocol that carries a call: HTTP/1.1, 2 or 3, gRPC, gRPC over HTTP/3
//	prepared  a request that was encoded before the window; its answer is read as far as
//	          status and length
//	kept      an answer whose header and body are kept for a look at them
//
// A folder is an engine, which carries calls, or a maker of requests. This package must not
// know when calls are sent, nor that they are measured.
package service
