package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// A namespace is a network namespace that lives as long as this, or a process in
// it, does.
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

// apply sets the calling thread's namespace up: /proc/sys/net shows a thread its
// own.
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
	// Interfaces to come have no IPv6: its neighbour discovery and the like would be
	// frames that nobody sent.
	err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explainRefusal("set net.ipv6.conf.default.disable_ipv6 to 1", err)
	}
	return nil
}

// setIPv4 sets one of the calling thread's net.ipv4.
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

func (n *namespace) close() error {
	if n == nil || n.file == nil {
		return nil
	}
	return n.file.Close()
}

// explainRefusal adds to a refusal what would allow the operation.
func explainRefusal(what string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%s: %w (%w): containers have /proc/sys read-only: make it writable, as `docker run --security-opt systempaths=unconfined` does", what, err, host.ErrUnsupported)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w (%w): %s", what, err, host.ErrUnsupported, whatForbids(os.DirFS("/")))
	}
	return fmt.Errorf("%s: %w", what, err)
}
