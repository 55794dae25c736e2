// Package conn opens client connections and counts what they do. It is the only package
// of the laboratory that dials a server which is measured.
//
//  1. A Dialer opens TCP connections and does TLS handshakes on them. It counts and times
//     both, sums the connections' traffic, and collects what they negotiated.
//  2. An Opener holds the server's address, the TLS configuration and the protocol that
//     the server must agree to. It opens connections through a Dialer.
//  3. Ahead gives connections that were opened before to a library that dials by itself;
//     Credentials tell a gRPC library that their handshake is done.
//  4. Turns distributes calls over kept connections. The other lifecycles open a
//     connection for each call.
//
// The server's half is in handshake.go: Admit bounds the handshakes that a server does at
// once.
//
// Glossary:
//
//	opened    TCP or QUIC is connected; TLS may still fail
//	source    the address that a connection comes from
//	session   what a client keeps of a TLS connection to resume it later
//	traffic   bytes and packets as the kernel or QUIC counts them
//	record    a TLS record; counting them costs time, so only untimed calls are counted
//
// This package must not know what is sent over the connections, nor when.
package conn
