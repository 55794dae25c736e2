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

// A namespace is a network namespace. It lives as long as its file, or a process in it.
type namespace struct{ file *os.File }

// newNamespace makes one, with its loopback up and its sysctls set.
func newNamespace(s Settings) (*namespace, error) {
	n := &namespace{}
	err := host.OnDisposableThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return explainRefusal("make a network namespace", err)
		}
		// "self" would be the process's first thread, which has not moved.
		file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			return fmt.Errorf("open the network namespace: %w", err)
		}
		n.file = file
		return s.apply()
	})
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// firstPort is the first port of Linux's own range of local ports.
const firstPort = 32768

// apply sets up the calling thread's namespace, whose sysctls are in /proc/sys/net.
func (s Settings) apply() error {
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	if err != nil {
		return explainRefusal("bring the loopback up", err)
	}
	reuse := "0"
	if s.TimeWaitReuse {
		reuse = "2" // on loopback, which is Linux's default
	}
	values := map[string]string{"tcp_tw_reuse": reuse}
	if s.Ports > 0 {
		values["ip_local_port_range"] = fmt.Sprintf("%d %d", firstPort, firstPort+s.Ports-1)
	}
	for name, value := range values {
		if err := setIPv4(name, value); err != nil {
			return err
		}
	}
	// Interfaces have no IPv6: its neighbour discovery would add frames.
	err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explainRefusal("set net.ipv6.conf.default.disable_ipv6 to 1", err)
	}
	return nil
}

// setIPv4 sets a sysctl of net.ipv4 in the calling thread's namespace.
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

// do calls a function on a thread in the namespace.
func (n *namespace) do(step func() error) error {
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

// explainRefusal adds to an error what would allow the operation.
func explainRefusal(what string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%s: %w (%w): containers have /proc/sys read-only: make it writable, as `docker run --security-opt systempaths=unconfined` does", what, err, host.ErrUnsupported)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w (%w): %s", what, err, host.ErrUnsupported, whatForbids(os.DirFS("/")))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// InUserNamespace makes a command start in a user namespace of its own, where an ordinary user may
// make networks. User, group and files stay the same; so do the limits on priorities, perf events
// and control groups.
//
// This process cannot move there itself: the kernel refuses processes with several threads.
func InUserNamespace(command *exec.Cmd) {
	same := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: same(os.Geteuid()), GidMappings: same(os.Getegid()),
		// Workers inherit them. Without this, execve would drop them for users other than root.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW},
	}
}

// ExplainUserNamespace explains why a command did not start in a user namespace.
func ExplainUserNamespace(err error) error {
	var refusal syscall.Errno
	if errors.As(err, &refusal) {
		err = refusal // without the syscall that was tried
	}
	return fmt.Errorf("make a user namespace: %w (%w): %s", err, host.ErrUnsupported, whatForbids(os.DirFS("/")))
}

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

// createVeth makes the pair of interfaces, the outer one in the calling thread's namespace.
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

// awaitOuter waits until both ends' outer interfaces can send.
func (n *namespace) awaitOuter(two [2]end) error {
	return n.do(func() error {
		return errors.Join(awaitUp(two[0].outer.name, upPatience), awaitUp(two[1].outer.name, upPatience))
	})
}

const upPatience = 30 * time.Second

// awaitUp waits until an interface of the calling thread's namespace can send. Until the kernel
// has noticed its peer (net/core/link_watch.c), it drops every frame.
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

// disableOffloads makes the interface send frames of its MTU, with checksums. By default it leaves
// both to hardware that does not exist (linux/ethtool.h).
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
