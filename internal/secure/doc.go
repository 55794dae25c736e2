// Package secure makes what a TLS 1.3 connection needs on a machine that has
// nothing prepared: certificates at run time, and the two ends' configurations.
//
// A server calls Issue and serves with the Identity's configuration; it hands
// Identity.RootPEM to whoever will call it; a client is configured from that.
// Nothing is written to a disk and no key leaves its process.
//
// Glossary:
//
//	root      the authority that an Identity was issued by, made for it alone
//	leaf      the certificate that the server shows
//	group     the key exchange of the handshake (RFC 8446, section 4.2.7)
//
// This package must not know what is carried over the connections.
package secure
