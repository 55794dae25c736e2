package link

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// newNetwork makes a network, or skips where the machine has none to give.
func newNetwork(t testing.TB, s Settings) *Network {
	t.Helper()
	n, err := New(s)
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// in runs a test's step at the client's end.
func in(t *testing.T, n *Network, step func() error) {
	t.Helper()
	var failed error
	if err := n.InClient(func() { failed = step() }); err != nil {
		t.Fatal(err)
	}
	if failed != nil {
		t.Error(failed)
	}
}

func TestANetworkHasItsOwnLimits(t *testing.T) {
	outside := host.ReadLimits()
	for _, test := range []struct {
		settings Settings
		ports    int64
		held     time.Duration
	}{
		{Settings{Ports: 2000}, 2000, time.Minute},
		{Settings{Ports: 10, TimeWaitReuse: true}, 10, time.Second},
	} {
		n := newNetwork(t, test.settings)
		in(t, n, func() error {
			if got := host.ReadLimits(); got.Ports != test.ports || got.TimeWait != test.held {
				return fmt.Errorf("%+v: %d ports, held for %v", test.settings, got.Ports, got.TimeWait)
			}
			return nil
		})
	}
	if now := host.ReadLimits(); now != outside {
		t.Errorf("the machine's own limits changed from %+v to %+v", outside, now)
	}
}

// The truth that is put in: ten ports. What must come out: ten connections to
// one server, and then the kernel's error for it.
func TestPortsRunOutInANarrowNetwork(t *testing.T) {
	const ports = 10
	n := newNetwork(t, Settings{Ports: ports})
	in(t, n, func() error {
		server, err := listen(n.Address + ":40000") // outside the range, and so not one of the ten
		if err != nil {
			return err
		}
		defer syscall.Close(server)
		made := 0
		for range ports + 1 {
			conn, err := connect(40000)
			if errors.Is(err, syscall.EADDRNOTAVAIL) {
				break
			}
			if err != nil {
				return err
			}
			defer syscall.Close(conn)
			made++
		}
		if made != ports {
			return fmt.Errorf("%d connections were made, want %d", made, ports)
		}
		return nil
	})
}

// listen and connect stay on the calling thread, which the net package does not
// promise.
func listen(address string) (int, error) {
	to, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return 0, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}); err != nil {
		return 0, err
	}
	return fd, syscall.Listen(fd, 128)
}

func connect(port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		syscall.Close(fd)
		return 0, err
	}
	return fd, nil
}

func TestWhoMayNotIsToldWhatWouldAllowIt(t *testing.T) {
	err := explainRefusal("make a network namespace", os.ErrPermission)
	if !errors.Is(err, host.ErrUnsupported) || !strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
		t.Errorf("%v", err)
	}
	if err := explainRefusal("set net.ipv4.x to 1", unix.EROFS); !errors.Is(err, host.ErrUnsupported) || !strings.Contains(err.Error(), "make /proc/sys writable") {
		t.Errorf("%v", err)
	}
	if err := explainRefusal("bring the loopback up", os.ErrNotExist); errors.Is(err, host.ErrUnsupported) {
		t.Errorf("what went wrong otherwise is said to be unsupported: %v", err)
	}
}

// An interface sends once its peer is up, and nothing says so before.
func TestAwaitUp(t *testing.T) {
	n := newNetwork(t, Settings{})
	in(t, n, func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "first"}, PeerName: "second"}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(pair); err != nil {
			return err
		}
		if err := awaitUp("first", 0); err == nil || !strings.Contains(err.Error(), "the kernel has not brought interface first up") {
			t.Errorf("with its peer down: %v", err)
		}
		second, err := netlink.LinkByName("second")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetUp(second), awaitUp("first", upTimeout), awaitUp("second", upTimeout))
	})
}
