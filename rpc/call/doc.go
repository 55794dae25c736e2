// Package rpccall holds what an RPC library needs above its connections, and what does not
// depend on what is on the wire: messages encoded into pooled buffers, goroutines that run
// handlers, contexts of calls, interceptors in a chain, and the loop that accepts
// connections.
//
// Its parts do not know each other; a library takes those that it needs. Messages,
// interceptors and contexts are those of package grpc, so that generated code runs on it.
// This package must not know frames, nor how a library tells its errors.
package rpccall
