package link

import (
	"errors"
	"fmt"
	"net"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"wirelab.dev/internal/host"
)

// The addresses of a link's ends, from the range reserved for network benchmarks
// (RFC 2544, appendix C.2.2).
const (
	clientAddress = "198.18.0.1"
	serverAddress = "198.18.0.2"
	prefixBits    = 24
)

// end is one end of a link: a namespace that a process lives in, and the
// forwarder's socket at the other end of its veth pair.
type end struct {
	namespace *namespace
	address   string
	inner     string // interface in the end's namespace
	outer     string // interface in the forwarder's
}

// newDelayed makes a namespace for each end, and one between for the forwarder.
func newDelayed(s Settings) (n *Network, err error) {
	n = &Network{Address: serverAddress}
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
	// It ends with the last of the forwarder's sockets.
	between, err := newNamespace(Settings{})
	if err != nil {
		return n, err
	}
	ends := [2]end{
		{n.client, clientAddress, "client0", "client1"},
		{n.server, serverAddress, "server0", "server1"},
	}
	var sockets [2]int
	err = host.OnDisposableThread(func() error {
		if err := between.enter(); err != nil {
			return err
		}
		for i, e := range ends {
			if sockets[i], err = e.createVeth(); err != nil {
				for _, opened := range sockets[:i] {
					_ = unix.Close(opened)
				}
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, between.close()); err != nil {
		return n, err
	}
	for _, e := range ends {
		if err = e.setUp(); err != nil {
			err = errors.Join(err, unix.Close(sockets[0]), unix.Close(sockets[1]))
			return n, err
		}
	}
	n.forwarder = forward(sockets, s)
	return n, nil
}

// createVeth makes the end's veth pair and a socket that receives all frames of its
// outer side. It runs in the forwarder's namespace.
func (e end) createVeth() (socket int, err error) {
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: e.outer}, PeerName: e.inner,
		PeerNamespace: netlink.NsFd(int(e.namespace.file.Fd())),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return 0, explainRefusal("make a pair of interfaces", err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return 0, explainRefusal("bring an interface up", err)
	}
	at, err := net.InterfaceByName(e.outer)
	if err != nil {
		return 0, err
	}
	return openPacketSocket(at.Index)
}

// socketBuffer is the size, in bytes, of the buffer for frames that come while the
// forwarder does not run.
const socketBuffer = 16 << 20

// openPacketSocket opens a packet(7) socket that sees what comes in at an
// interface, and not what goes out.
func openPacketSocket(index int) (int, error) {
	protocol := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network byte order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, explainRefusal("open a packet socket", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer),
		unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: index}),
	)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("set a packet socket up: %w", err), unix.Close(socket))
	}
	return socket, nil
}

// setUp gives the end's inner interface its address.
func (e end) setUp() error {
	return host.OnDisposableThread(func() error {
		if err := e.namespace.enter(); err != nil {
			return err
		}
		inner, err := netlink.LinkByName(e.inner)
		if err != nil {
			return fmt.Errorf("find %s: %w", e.inner, err)
		}
		address, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", e.address, prefixBits))
		if err != nil {
			return err
		}
		err = errors.Join(disableOffloads(e.inner), netlink.AddrAdd(inner, address), netlink.LinkSetUp(inner))
		if err != nil {
			return explainRefusal("set "+e.inner+" up", err)
		}
		return nil
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
