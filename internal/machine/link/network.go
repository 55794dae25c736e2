// Package link makes private networks for trials: a new network namespace with
// known limits, or two namespaces with a link between them, which delays packets, loses,
// reorders and doubles them, and has a rate with a queue.
//
//	             New(Settings)
//	   ┌──────────────┴──────────────┐
//	one namespace               two, joined by an engine
//	server ── lo ── client      server ── veth ── engine ── veth ── client
//
// The engine is the first of these that can do exactly what is asked for: nothing (a bare pair
// of interfaces), the kernel's tbf or netem in a routing namespace between the ends, or a
// forwarder of frames in this package. The link's counts name the engine.
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

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"wirelab.dev/internal/data/record"
)

// A Network holds the namespaces of a server and its client. Its methods may be called
// from any goroutine, except for the functions that Server and Client return.
type Network struct {
	// Address is the IP address at which the server is to listen.
	Address string

	server, client *namespace // the same one without a link
	carrier        carrier    // nil without a link
	engine         Engine
	seed           uint64
	uncounted      error // why Stop returned no counts
}

// A carrier is the engine of a link.
type carrier interface {
	stop() (up, down record.LinkWay, err error) // once
	close() error
}

// New makes a network. A refusal wraps host.ErrUnsupported.
func New(s Settings) (*Network, error) {
	if s.linked() {
		return newLink(s)
	}
	only, err := newNamespace(s)
	if err != nil {
		return nil, err
	}
	return &Network{Address: "127.0.0.1", server: only, client: only}, nil
}

// EnterServer moves the calling thread, which must end with its goroutine, to the server's end.
func (n *Network) EnterServer() error { return n.server.enter() }

// EnterClient moves the calling thread to the client's end, as EnterServer does.
func (n *Network) EnterClient() error { return n.client.enter() }

// InClient calls a function on a thread at the client's end, and waits for it.
func (n *Network) InClient(do func()) error {
	return n.client.do(func() error {
		do()
		return nil
	})
}

// Stop ends the link, once, and returns its counts; nil without a link or a network. If the kernel cannot
// report them, Close returns the error.
func (n *Network) Stop() *record.Link {
	if n == nil || n.carrier == nil {
		return nil
	}
	up, down, err := n.carrier.stop()
	n.uncounted = err
	did := &record.Link{
		Engine: string(n.engine), Seed: n.seed, Up: &up, Down: &down,
		Frames: up.Sent + down.Sent, Dropped: up.Overrun + down.Overrun,
	}
	for _, way := range []record.LinkWay{up, down} {
		if way.LateP50NS != nil {
			did.LateP50NS, did.LateP99NS = max(did.LateP50NS, *way.LateP50NS), max(did.LateP99NS, *way.LateP99NS)
		}
	}
	return did
}

// Close closes the network; nil is fine. The namespaces last until their processes have ended.
func (n *Network) Close() error {
	if n == nil {
		return nil
	}
	errs := []error{n.uncounted}
	if n.carrier != nil {
		errs = append(errs, n.carrier.close())
	}
	errs = append(errs, n.server.close())
	if n.client != n.server {
		errs = append(errs, n.client.close())
	}
	return errors.Join(errs...)
}

// An Engine names the mechanism that carries the packets of a link.
type Engine string

// The engines. A link takes the first that can do what is asked of it.
const (
	Direct Engine = "direct" // a bare pair of interfaces, which does nothing
	TBF    Engine = "tbf"    // the kernel's token bucket (tc-tbf(8)): a rate and its queue
	Netem  Engine = "netem"  // the kernel's emulator (tc-netem(8)), where it has one
	Frames Engine = "frames" // this package's forwarder
)

// choose returns the engine for the settings, among those that the kernel has.
//
// The kernel's engines are closer to a real network's timing, and take no CPU time from the trial.
// They are used if they do exactly what is asked for: tbf a rate alone, netem a delay alone.
// netem's losses follow no seed before Linux 6.6, its jitter changes the order, its queue counts
// packets, and it does not separate losses from drops of a full queue.
func (s Settings) choose(has func(Engine) bool) Engine {
	var rates, delays, others bool
	for _, p := range []record.Way{s.Up, s.Down} {
		rates = rates || p.Rate != 0
		delays = delays || p.DelayNS != 0
		p.Rate, p.DelayNS = 0, 0
		others = others || acts(p)
	}
	switch {
	case !rates && !delays && !others && !s.Emulated:
		return Direct
	case rates && !delays && !others && has(TBF):
		return TBF
	case delays && !rates && !others && has(Netem):
		return Netem
	}
	return Frames
}

// Check makes a network and closes it. A refusal wraps host.ErrUnsupported.
func Check() error {
	network, err := New(Settings{Emulated: true})
	if err != nil {
		return err
	}
	return network.Close()
}

// switches lists sysctls, with the values that deny user namespaces to ordinary users.
var switches = []struct{ file, value, remedy string }{
	{"user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	{"kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	{"kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for wirelab with `userns,`"},
}

// whatForbids returns why an ordinary user lacks the rights that networks need, as far as the
// root folder shows it, and how to get them.
func whatForbids(root fs.FS) string {
	for _, s := range switches {
		text, err := fs.ReadFile(root, "proc/sys/"+s.file)
		if err == nil && strings.TrimSpace(string(text)) == s.value {
			name := strings.ReplaceAll(s.file, "/", ".")
			return name + " is " + s.value + ": run as root, or set " + s.remedy
		}
	}
	status, err := fs.ReadFile(root, "proc/self/status")
	if err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return "a filter of system calls (seccomp) is active, as in containers: give the container the capabilities SYS_ADMIN and NET_ADMIN, or a seccomp profile that allows user namespaces"
	}
	if err == nil && strings.Contains(string(status), "\nUid:\t0\t") {
		return "root lacks rights here, as in a container: grant it CAP_SYS_ADMIN and CAP_NET_ADMIN, or run as an ordinary user, who may have user namespaces"
	}
	return "run as root, or grant CAP_SYS_ADMIN and CAP_NET_ADMIN, or use a kernel with CONFIG_USER_NS"
}

// Settings describe a network. A zero value leaves the kernel's default for a new
// namespace, unless the field says otherwise. Without a link, both ends use the
// loopback of one namespace. They are not checked again: a scenario refuses what no link can do.
type Settings struct {
	// Ports is the number of local ports for connections to one server.
	Ports int
	// TimeWaitReuse lets a loopback connection take over the ports of a closed one after a second,
	// which is Linux's default, and not a minute.
	TimeWaitReuse bool
	// Emulated makes a link that goes through an emulator even where Up and Down
	// are zero, so that the emulator's own cost can be measured.
	Emulated bool
	// Up is the way from client to server, Down the way back. Bursts of losses are E. N. Gilbert's
	// ("Capacity of a Burst-Noise Channel", 1960): after each packet the link turns bad, or good
	// again, with a fixed probability, and packets that come while it is bad are lost.
	Up, Down record.Way
	// MTU is the longest IP packet of a link, in bytes. 0: 1500. An MTU alone makes a
	// link that does nothing else: a bare pair of interfaces.
	MTU int
	// Seed decides the fate of each packet, by its number in each direction: the same
	// seed loses and delays the same ones.
	Seed uint64
}

// Bounds of the queue of a path without a queue size. An emulator could not hold more.
const (
	leastDefaultQueue = 32 << 10
	mostDefaultQueue  = 8 << 20
)

// queueBytes returns the queue of a path. Its default is the data that the rate carries in 100 ms.
func queueBytes(p record.Way) int {
	if p.QueueBytes > 0 {
		return p.QueueBytes
	}
	const bitsIn100ms = 8 * 10
	return int(min(max(p.Rate/bitsIn100ms, leastDefaultQueue), mostDefaultQueue))
}

// linked reports whether the settings ask for a link between two namespaces.
func (s Settings) linked() bool { return s.Emulated || s.MTU != 0 || acts(s.Up) || acts(s.Down) }

// acts reports whether the path does anything to a packet.
func acts(p record.Way) bool {
	p.QueueBytes, p.BurstPackets = 0, 0
	return p != record.Way{}
}

// DefaultMTU is the longest packet of Ethernet.
const DefaultMTU = 1500

// mtu returns the MTU with its default filled in.
func (s Settings) mtu() int { return cmp.Or(s.MTU, DefaultMTU) }

// headerBytes is the length of an Ethernet header (ETH_HLEN of linux/if_ether.h).
const headerBytes = 14
