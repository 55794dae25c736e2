// Package link makes private networks for trials: one network namespace with known limits, or two
// namespaces with a link between them. A link can delay, lose, reorder and duplicate packets, and
// can limit their rate with a queue.
//
//	             New(Settings)
//	   ┌──────────────┴──────────────┐
//	one namespace               two, joined by an engine
//	server ── lo ── client      server ── veth ── engine ── veth ── client
//
// The engine is the first of these that can do exactly what the settings require: a bare pair of
// interfaces, the kernel's tbf or netem in a namespace between server and client, or this package's
// forwarder. The link's counts name the engine.
//
// The forwarder handles a frame in three steps. The kernel writes the frame into a ring. A thread
// asks the discipline for a decision and copies the frame into a slot. The thread sends the frame
// when it is due. The discipline uses neither sockets nor clocks.
//
// A process runs in the network if the thread that starts it has called EnterServer or EnterClient.
// The network ends when it is closed and its processes have ended.
//
// This package must not know what runs in a network, or what is measured.
//
// Glossary
//
//	namespace   the kernel's network namespace: interfaces, ports, sysctls
//	veth        a pair of interfaces: a frame sent at one arrives at the other
//	engine      the mechanism that carries the packets of a link
//	path        delay, loss, rate and other settings of one direction of a link
//	forwarder   two threads, one for each direction, that copy Ethernet frames
//	discipline  decides whether and when each frame leaves
//	overrun     an unwanted loss: the emulator had no room for the frame
//	lateness    how much later than its due time a frame was forwarded
package link

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"

	"wirelab.dev/internal/data/record"
)

// A Network holds the namespaces of a server and its client. EnterServer and EnterClient change the
// calling thread. Any goroutine may call the other methods.
type Network struct {
	// Address is the IP address at which the server must listen.
	Address string

	server, client *namespace // without a link, server and client are the same namespace
	carrier        carrier    // nil without a link
	engine         Engine
	seed           uint64
	uncounted      error // error of Stop if it could not read the counts
}

// A carrier moves the packets of a link. Each engine has its own carrier.
type carrier interface {
	stop() (up, down record.LinkWay, err error) // must be called at most once
	close() error
}

// New makes a network. If the kernel refuses, the error wraps host.ErrUnsupported.
func New(s Settings) (*Network, error) {
	if s.needsLink() {
		return newLink(s)
	}
	only, err := newNamespace(s)
	if err != nil {
		return nil, err
	}
	return &Network{Address: "127.0.0.1", server: only, client: only}, nil
}

// EnterServer moves the calling thread into the server's namespace. The caller must lock the
// goroutine to its thread and let the thread end with it.
func (n *Network) EnterServer() error { return n.server.enter() }

// EnterClient moves the calling thread into the client's namespace, like EnterServer.
func (n *Network) EnterClient() error { return n.client.enter() }

// InClient calls do on a thread in the client's namespace, and waits for it.
func (n *Network) InClient(do func()) error {
	return n.client.runInside(func() error {
		do()
		return nil
	})
}

// Stop ends the link and returns its counts, or nil without a link. Call it at most once. If the
// counts cannot be read, Close returns the error.
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

// Close closes the network. n may be nil. The namespaces remain until their processes have ended.
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

// An Engine is the name of a mechanism that carries the packets of a link.
type Engine string

// The engines, the preferred one first.
const (
	Direct Engine = "direct" // a bare pair of interfaces without emulation
	TBF    Engine = "tbf"    // the kernel's token bucket (tc-tbf(8)), which limits the rate
	Netem  Engine = "netem"  // the kernel's network emulator (tc-netem(8))
	Frames Engine = "frames" // this package's forwarder
)

// chooseEngine returns the engine for the settings. has reports whether the kernel has an engine.
//
// The kernel's engines have more exact timing than the forwarder, and use no CPU time of the trial.
// tbf serves only a rate alone, netem only a delay alone. For other settings netem is not exact.
// Before Linux 6.6 its losses follow no seed. Its jitter reorders packets, its queue counts packets
// instead of bytes, and it adds losses and queue drops together.
func (s Settings) chooseEngine(has func(Engine) bool) Engine {
	var rates, delays, others bool
	for _, p := range []record.Way{s.Up, s.Down} {
		rates = rates || p.Rate != 0
		delays = delays || p.DelayNS != 0
		p.Rate, p.DelayNS = 0, 0
		others = others || changesPackets(p)
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

// CheckSupport makes and closes a network. If the kernel refuses, the error wraps
// host.ErrUnsupported.
func CheckSupport() error {
	network, err := New(Settings{Emulated: true})
	if err != nil {
		return err
	}
	return network.Close()
}

// userNamespaceSysctls lists sysctls that can forbid user namespaces to ordinary users. value is
// the value that forbids them.
var userNamespaceSysctls = []struct{ file, value, remedy string }{
	{"user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	{"kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	{"kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for wirelab with `userns,`"},
}

// explainMissingRights explains why this process may not make networks, as far as files below root
// show it, and what the user can do.
func explainMissingRights(root fs.FS) string {
	for _, s := range userNamespaceSysctls {
		text, err := fs.ReadFile(root, "proc/sys/"+s.file)
		if err == nil && strings.TrimSpace(string(text)) == s.value {
			name := strings.ReplaceAll(s.file, "/", ".")
			return "sysctl " + name + " is " + s.value + ": run as root, or set " + s.remedy
		}
	}
	status, err := fs.ReadFile(root, "proc/self/status")
	if err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return "a seccomp filter restricts system calls, as in containers: give the container the capabilities SYS_ADMIN and NET_ADMIN, or a seccomp profile that allows user namespaces"
	}
	if err == nil && strings.Contains(string(status), "\nUid:\t0\t") {
		return "root lacks capabilities, as in a container: grant CAP_SYS_ADMIN and CAP_NET_ADMIN, or run as an ordinary user who may create user namespaces"
	}
	return "run as root, or grant CAP_SYS_ADMIN and CAP_NET_ADMIN, or use a kernel with CONFIG_USER_NS"
}

// Settings describes a network. A zero field means the kernel's default for a new namespace, unless
// its comment says otherwise. Without a link, server and client use one namespace's loopback.
// Package scenario checks the settings before this package uses them.
type Settings struct {
	// Ports is the number of local ports for connections to one server.
	Ports int
	// TimeWaitReuse lets a new loopback connection use the ports of a closed connection after one
	// second, which is Linux's default, instead of one minute.
	TimeWaitReuse bool
	// Emulated makes a link with the forwarder even if Up and Down are zero, in order to measure
	// the forwarder's own cost.
	Emulated bool
	// Up is the path from client to server, Down the path from server to client. Bursts of losses
	// follow E. N. Gilbert ("Capacity of a Burst-Noise Channel", 1960). After each packet, the link
	// turns bad or good with a fixed probability. A bad link loses all packets.
	Up, Down record.Way
	// MTU is the size of the longest IP packet on the link, in bytes. 0 means 1500. If only MTU is
	// set, the link is a bare pair of interfaces.
	MTU int
	// Seed determines what happens to each packet. With equal seeds, a link loses and delays the
	// packets with the same numbers.
	Seed uint64
}

// Limits of the default queue size. The forwarder has no room for a longer queue.
const (
	minDefaultQueue = 32 << 10
	maxDefaultQueue = 8 << 20
)

// queueBytes returns the queue size of a path. The default is the number of bytes that the rate
// carries in 100 ms.
func queueBytes(p record.Way) int {
	if p.QueueBytes > 0 {
		return p.QueueBytes
	}
	const bitsIn100ms = 8 * 10
	return int(min(max(p.Rate/bitsIn100ms, minDefaultQueue), maxDefaultQueue))
}

func (s Settings) needsLink() bool {
	return s.Emulated || s.MTU != 0 || changesPackets(s.Up) || changesPackets(s.Down)
}

func changesPackets(p record.Way) bool {
	p.QueueBytes, p.BurstPackets = 0, 0
	return p != record.Way{}
}

// DefaultMTU is the size of the longest IP packet on Ethernet.
const DefaultMTU = 1500

func (s Settings) mtuOrDefault() int { return cmp.Or(s.MTU, DefaultMTU) }

// headerBytes is the length of an Ethernet header (ETH_HLEN of linux/if_ether.h).
const headerBytes = 14
