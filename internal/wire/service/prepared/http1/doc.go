// Package http1 reads answers of HTTP/1.1 as far as status and length.
//
//	bytes ─> Parser.Feed ─> Status, Bytes, Close
//
// A [Parser] is a pure state machine: it keeps no bytes, and however the bytes are split the
// result is the same. It judges as net/http does where net/http is strict, and refuses some
// oddities that net/http accepts, such as folded header lines.
//
// The package must not know connections, nor what a request is.
package http1
