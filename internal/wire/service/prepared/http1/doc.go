// Package http1 reads the status and the length of HTTP/1.1 answers.
//
//	bytes ─> Parser.Feed ─> Status, Bytes, Close
//
// A [Parser] is a pure state machine: it keeps no bytes, and its result does not depend on
// how the bytes are split. It refuses everything that net/http refuses, and some oddities
// that net/http accepts, such as folded header lines.
//
// The package must not know connections or requests.
package http1
