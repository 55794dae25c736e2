package link

import (
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// An end is one end of a link: a namespace that a process lives in, and a pair of
// interfaces. One of the pair is in that namespace.
type end struct {
	namespace *namespace
	address   net.IP // from the range for benchmarks (RFC 2544, appendix C.2.2)
	inner     port   // in the end's namespace
	outer     port   // in the one between, or at the other end of a bare pair
}

// A port is an interface of a link.
type port struct {
	name     string
	hardware net.HardwareAddr // locally administered (IEEE 802, clause 8.4)
}

// ends returns the client's end and the server's.
func ends(client, server *namespace) [2]end {
	hardware := func(last byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, last} }
	return [2]end{
		{client, net.IPv4(198, 18, 0, 1), port{"client0", hardware(1)}, port{"client1", hardware(2)}},
		{server, net.IPv4(198, 18, 0, 2), port{"server0", hardware(3)}, port{"server1", hardware(4)}},
	}
}

const prefixBits = 24

// newLink makes a namespace for each end, and joins them by the engine that suits.
func newLink(s Settings) (n *Network, err error) {
	n = &Network{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	if n.server, err = newNamespace(s); err != nil {
		return n, err
	}
	if n.client, err = newNamespace(s); err != nil {
		return n, err
	}
	two := ends(n.client, n.server)
	n.Address = two[1].address.String()
	engine := s.choose(kernelHas)
	if engine == Direct {
		n.carrier, err = joinBare(two, s.mtu())
		return n, err
	}
	between, err := newNamespace(Settings{})
	if err != nil {
		return n, err
	}
	if engine == Frames {
		n.carrier, err = joinByFrames(between, two, s)
		// It ends with the last of the forwarder's sockets.
		return n, errors.Join(err, between.close())
	}
	n.carrier, err = joinByQueues(between, two, engine, s)
	return n, err
}

// createVeth makes the end's pair of interfaces, the outer one in the calling thread's
// namespace.
func (e end) createVeth(mtu int) (outer netlink.Link, err error) {
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: e.outer.name, HardwareAddr: e.outer.hardware, MTU: mtu, TxQLen: -1},
		PeerName:  e.inner.name, PeerHardwareAddr: e.inner.hardware, PeerMTU: uint32(mtu), PeerTxQLen: -1,
		PeerNamespace: netlink.NsFd(int(e.namespace.file.Fd())),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return nil, explainRefusal("make a pair of interfaces", err)
	}
	if outer, err = netlink.LinkByName(e.outer.name); err != nil {
		return nil, fmt.Errorf("find %s: %w", e.outer.name, err)
	}
	if err := netlink.LinkSetUp(outer); err != nil {
		return nil, explainRefusal("bring "+e.outer.name+" up", err)
	}
	return outer, nil
}

// setUp gives the end's interface its address, and the other end's as a neighbour at
// the hardware address: no ARP is sent, which a link could lose.
func (e end) setUp(other net.IP, at net.HardwareAddr) error {
	name := e.inner.name
	return e.namespace.do(func() error {
		inner, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: e.address, Mask: net.CIDRMask(prefixBits, 32)}}
		err = errors.Join(disableOffloads(name), netlink.AddrAdd(inner, address), netlink.LinkSetUp(inner))
		if err == nil {
			err = addNeighbour(inner, other, at)
		}
		if err != nil {
			return explainRefusal("set "+name+" up", err)
		}
		return awaitUp(name, upPatience)
	})
}

// awaitOuter waits until both ends' outer interfaces send.
func (n *namespace) awaitOuter(two [2]end) error {
	return n.do(func() error {
		return errors.Join(awaitUp(two[0].outer.name, upPatience), awaitUp(two[1].outer.name, upPatience))
	})
}

const upPatience = 30 * time.Second

// awaitUp waits until an interface of the calling thread's namespace sends. One that was up before its
// peer drops every frame until a thread of the kernel has noticed the peer
// (net/core/link_watch.c), which takes long where the CPUs are busy.
func awaitUp(name string, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		at, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		state := at.Attrs().OperState
		if state == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is %s after %v: the kernel has not brought it up", name, state, patience)
		}
	}
}

// addNeighbour adds a permanent entry for the hardware address of an IP address.
func addNeighbour(via netlink.Link, ip net.IP, at net.HardwareAddr) error {
	return netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: via.Attrs().Index, IP: ip, HardwareAddr: at, State: netlink.NUD_PERMANENT,
	})
}

// do calls a function on a thread in the namespace.
func (n *namespace) do(step func() error) error {
	return host.OnDisposableThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return step()
	})
}

// disableOffloads makes the interface send frames of its MTU with checksums, as a
// real network does. Otherwise it leaves both to hardware that does not exist, and
// sends segments of up to 64 KiB (linux/ethtool.h).
func disableOffloads(name string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	for _, command := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_STXCSUM} {
		value := struct{ command, data uint32 }{command, 0} // struct ethtool_value
		request := struct {                                 // struct ifreq of linux/if.h
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)}
		copy(request.name[:], name)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return fmt.Errorf("turn an offload of %s off: %w", name, errno)
		}
	}
	return nil
}
