// Package secure makes certificates at run time, and the TLS 1.3 configurations of
// both ends.
//
//  1. A server calls Issue and serves with the Identity's configuration.
//  2. It passes Identity.RootPEM to its clients.
//  3. A client makes its configuration from that.
//
// Nothing is written to a disk, and no key leaves its process.
//
// Glossary:
//
//	root      the authority that issued an Identity, made for it alone
//	leaf      the certificate that the server sends
//	group     the key exchange of the handshake (RFC 8446, section 4.2.7)
//
// This package must not know what is carried over the connections.
package secure
