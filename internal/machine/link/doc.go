// Package link makes private networks for trials: a new network namespace with
// known limits, or two namespaces with a link between them, which delays packets, loses,
// reorders and doubles them, and has a rate with a queue.
//
//	             New(Settings)
//	   ┌──────────────┴──────────────┐
//	one namespace               two, joined by an engine
//	server ── lo ── client      server ── veth ── engine ── veth ── client
//
// The engine is the first of these that does exactly what is asked for: nothing (a bare
// pair of interfaces), the kernel's tbf or netem in a namespace between that routes, or
// a forwarder of frames that is part of this package. Counts name it.
//
// The forwarder handles a frame in three steps: the kernel writes it into a ring; a thread
// asks the discipline about it and copies it into a slot; the thread sends it when the
// discipline says that it is due. The discipline is pure: it knows neither sockets nor clocks.
//
// A process runs in the network if the thread that starts it has called
// EnterServer or EnterClient. The network ends when it is closed and its processes
// have ended. The rest of the machine does not see it.
//
// This package must not know what runs in a network, or what is measured.
//
// Glossary
//
//	namespace   the kernel's network namespace: interfaces, ports, sysctls
//	veth        a pair of interfaces: what goes into one comes out of the other
//	engine      the mechanism that carries the packets of a link
//	path        delay, loss, rate and so on of one direction of a link
//	forwarder   two threads, one for each direction, that copy Ethernet frames
//	discipline  decides whether and when each frame leaves
//	wire        the rate of a path, and the queue before it
//	overrun     an unwanted loss: the emulator had no room for the frame
//	late        how much later than due a frame was forwarded
package link
