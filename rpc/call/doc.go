// Package rpccall holds what the RPC libraries of this module share above their connections: a
// server's life ([Server]), the set of connections ([Conns]), goroutines that run handlers
// ([Workers]), contexts of calls ([Context]), call options and interceptors, messages encoded
// into pooled buffers, the queue of received ones ([Queue]), pings of silent peers
// ([PingTimer]), and statuses.
//
// A library takes the parts that it needs. Messages, interceptors and contexts have the types of
// package grpc, so that generated code runs on every library.
//
// This package must not know frames, nor which library calls it. Package wire beside it holds
// the details of gRPC's own wire format.
package rpccall
