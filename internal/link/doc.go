// Package link makes the networks that a trial runs in where the machine's own
// will not do: a fresh network namespace whose limits are known, and two of
// them with a link between that delays.
//
//	             New(Settings)
//	   ┌──────────────┴──────────────┐
//	one namespace               two, and a forwarder
//	server ── lo ── client      server ── veth ── forwarder ── veth ── client
//
// A process gets in by being started from a thread that Enter has moved. All is
// gone when the Network is closed and the processes have ended; nothing of it is
// visible to the rest of the machine.
//
// This package must not know what runs in a network, nor what is measured.
//
// Glossary
//
//	namespace   the kernel's network namespace: interfaces, ports, sysctls
//	veth        a pair of interfaces: what goes into one comes out of the other
//	forwarder   two threads that carry Ethernet frames, one a direction, each
//	            held back for the link's delay
//	late        how much later than due a frame was forwarded
package link
