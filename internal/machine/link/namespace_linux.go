package link

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"wirelab.dev/internal/machine/host"
)

// A namespace is a network namespace. It exists while its file is open or contains a process.
type namespace struct{ file *os.File }

func newNamespace(s Settings) (*namespace, error) {
	n := &namespace{}
	err := host.OnDisposableThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return explainRefusal("make a network namespace", err)
		}
		// /proc/self/ns would show the namespace of the process's first thread.
		file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			return fmt.Errorf("open the new network namespace: %w", err)
		}
		n.file = file
		return s.apply()
	})
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// firstLocalPort is the first port in Linux's default range of local ports.
const firstLocalPort = 32768

func (s Settings) apply() error {
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	if err != nil {
		return explainRefusal("bring the loopback interface up", err)
	}
	reuse := "0"
	if s.TimeWaitReuse {
		reuse = "2" // only on loopback: Linux's default
	}
	values := map[string]string{"tcp_tw_reuse": reuse}
	if s.Ports > 0 {
		values["ip_local_port_range"] = fmt.Sprintf("%d %d", firstLocalPort, firstLocalPort+s.Ports-1)
	}
	for name, value := range values {
		if err := setIPv4(name, value); err != nil {
			return err
		}
	}
	// Disable IPv6 on new interfaces, because its neighbour discovery would send extra frames.
	err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explainRefusal("set net.ipv6.conf.default.disable_ipv6 to 1", err)
	}
	return nil
}

func setIPv4(name, value string) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
		return explainRefusal("set net.ipv4."+strings.ReplaceAll(name, "/", ".")+" to "+value, err)
	}
	return nil
}

func (n *namespace) enter() error {
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return explainRefusal("enter the network namespace", err)
	}
	return nil
}

func (n *namespace) runInside(step func() error) error {
	return host.OnDisposableThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return step()
	})
}

func (n *namespace) close() error {
	if n == nil || n.file == nil {
		return nil
	}
	return n.file.Close()
}

func explainRefusal(what string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%s: %w (%w): /proc/sys is read-only, as in most containers: make /proc/sys writable, for example with `docker run --security-opt systempaths=unconfined`", what, err, host.ErrUnsupported)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w (%w): %s", what, err, host.ErrUnsupported, explainMissingRights(os.DirFS("/")))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// SetUserNamespace makes a command start in a new user namespace, in which an ordinary user may
// make networks. The command keeps its user, group and files, and gets no other rights.
//
// This process itself cannot enter a user namespace, because it has several threads.
func SetUserNamespace(command *exec.Cmd) {
	same := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: same(os.Geteuid()), GidMappings: same(os.Getegid()),
		// Workers inherit ambient capabilities. An execve without root loses other capabilities.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW},
	}
}

// ExplainUserNamespace explains why a command did not start in a user namespace.
func ExplainUserNamespace(err error) error {
	var refusal syscall.Errno
	if errors.As(err, &refusal) {
		err = refusal // leaves out the name of the system call
	}
	return fmt.Errorf("make a user namespace: %w (%w): %s", err, host.ErrUnsupported, explainMissingRights(os.DirFS("/")))
}

// A linkEnd is one side of a link: the namespace of the server or the client, and a pair of
// interfaces.
type linkEnd struct {
	namespace *namespace
	address   net.IP        // from the address range for benchmarks (RFC 2544, appendix C.2.2)
	inner     linkInterface // in the namespace of the server or the client
	outer     linkInterface // in the engine's namespace, or in the other side's namespace
}

// A linkInterface identifies a network interface of a link.
type linkInterface struct {
	name     string
	hardware net.HardwareAddr // locally administered (IEEE 802, clause 8.4)
}

func newEnds(client, server *namespace) [2]linkEnd {
	hardware := func(last byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, last} }
	return [2]linkEnd{
		{client, net.IPv4(198, 18, 0, 1), linkInterface{"client0", hardware(1)}, linkInterface{"client1", hardware(2)}},
		{server, net.IPv4(198, 18, 0, 2), linkInterface{"server0", hardware(3)}, linkInterface{"server1", hardware(4)}},
	}
}

const addressPrefixBits = 24

// createVeth makes both interfaces. The outer interface is in the calling thread's namespace.
func (e linkEnd) createVeth(mtu int) (outer netlink.Link, err error) {
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: e.outer.name, HardwareAddr: e.outer.hardware, MTU: mtu, TxQLen: -1},
		PeerName:  e.inner.name, PeerHardwareAddr: e.inner.hardware, PeerMTU: uint32(mtu), PeerTxQLen: -1,
		PeerNamespace: netlink.NsFd(int(e.namespace.file.Fd())),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return nil, explainRefusal("make a pair of network interfaces", err)
	}
	if outer, err = netlink.LinkByName(e.outer.name); err != nil {
		return nil, fmt.Errorf("find interface %s: %w", e.outer.name, err)
	}
	if err := netlink.LinkSetUp(outer); err != nil {
		return nil, explainRefusal("bring interface "+e.outer.name+" up", err)
	}
	return outer, nil
}

// setUp sets the IP address of the inner interface. It also stores the other side's hardware
// address, because the link could lose ARP packets.
func (e linkEnd) setUp(other net.IP, at net.HardwareAddr) error {
	name := e.inner.name
	return e.namespace.runInside(func() error {
		inner, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: e.address, Mask: net.CIDRMask(addressPrefixBits, 32)}}
		err = errors.Join(disableOffloads(name), netlink.AddrAdd(inner, address), netlink.LinkSetUp(inner))
		if err == nil {
			err = addNeighbour(inner, other, at)
		}
		if err != nil {
			return explainRefusal("configure interface "+name, err)
		}
		return awaitUp(name, upTimeout)
	})
}

func (n *namespace) awaitOuter(two [2]linkEnd) error {
	return n.runInside(func() error {
		return errors.Join(awaitUp(two[0].outer.name, upTimeout), awaitUp(two[1].outer.name, upTimeout))
	})
}

const upTimeout = 30 * time.Second

// awaitUp waits until an interface in the calling thread's namespace can send. Until the kernel has
// noticed the interface's peer (net/core/link_watch.c), it drops every frame.
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
			return fmt.Errorf("the kernel has not brought interface %s up within %v: its state is %s", name, patience, state)
		}
	}
}

func addNeighbour(via netlink.Link, ip net.IP, at net.HardwareAddr) error {
	return netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: via.Attrs().Index, IP: ip, HardwareAddr: at, State: netlink.NUD_PERMANENT,
	})
}

// disableOffloads makes the kernel split packets into frames and compute checksums. By default the
// kernel leaves both tasks to network hardware, which a virtual interface lacks (linux/ethtool.h).
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
			return fmt.Errorf("turn off an offload of interface %s: %w", name, errno)
		}
	}
	return nil
}
