// Package link makes private networks for trials: a new network namespace with
// known limits, or two namespaces with a link between them that adds a delay, and loss.
//
//	             New(Settings)
//	   ┌──────────────┴──────────────┐
//	one namespace               two, and a forwarder
//	server ── lo ── client      server ── veth ── forwarder ── veth ── client
//
// A process runs in the network if the thread that starts it has called
// EnterServer or EnterClient. The network ends when it is closed and its processes
// have ended. The rest of the machine does not see it.
//
// This package must not know what runs in a network, nor what is measured.
//
// Glossary
//
//	namespace   the kernel's network namespace: interfaces, ports, sysctls
//	veth        a pair of interfaces: what goes into one comes out of the other
//	forwarder   two threads, one for each direction, that copy Ethernet frames
//	            and hold each one back for the link's delay
//	late        how much later than due a frame was forwarded
package link
