// Package link makes private networks for trials: a new network namespace with
// known limits, or two namespaces with a link between them, which delays packets, loses,
// reorders and doubles them, and has a rate with a queue.
//
//	             New(Settings)
//	   ┌──────────────┴──────────────┐
//	one namespace               two, joined by an engine
//	server ── lo ── client      server ── veth ── engine ── veth ── client
//
// The engine is the first of these that does just what is asked for: nothing (a bare
// pair of interfaces), the kernel's tbf or netem in a namespace between that routes, or
// a forwarder of frames that is part of this package. Counts name it.
//
// A frame passes through the forwarder so: the kernel writes it into a ring, a thread
// asks the discipline what becomes of it and copies it into a slot, and sends it when
// the discipline says that it is due. The discipline is pure: it knows neither sockets
// nor clocks.
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
//	engine      what carries the packets of a link
//	path        what a link does to the packets of one direction
//	forwarder   two threads, one for each direction, that copy Ethernet frames
//	discipline  what decides each frame's fate, and when it is due
//	wire        the rate of a path, and the queue before it
//	overrun     a frame lost for want of room in the emulator, which nobody asked for
//	late        how much later than due a frame was forwarded
package link
