package sockopt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func set(fd int, name string) error {
	return os.NewSyscallError("setsockopt TCP_CONGESTION "+name, unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name))
}

func get(fd int) (string, error) {
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	return strings.TrimRight(name, "\x00"), err
}

// trySetting sets the congestion control on a test socket. Only this shows whether a name is
// usable: the kernel loads modules on demand, and allows root more names than other users.
func trySetting(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	switch err := set(fd, name); {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the kernel has loaded only %s: try `modprobe tcp_%s`", strings.Join(Available(), ", "), name)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("without root, the kernel allows only %s: run as root, or add the name to net.ipv4.tcp_allowed_congestion_control", strings.Join(readNames("allowed"), ", "))
	default:
		return err
	}
}

// Available lists the congestion controls that the kernel has loaded.
func Available() []string { return readNames("available") }

// Default returns the congestion control of sockets for which the program sets none.
func Default() string {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	return strings.TrimSpace(string(text))
}

func readNames(which string) []string {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_" + which + "_congestion_control")
	if err != nil {
		return []string{"a list that could not be read: " + err.Error()}
	}
	return strings.Fields(string(text))
}

// InUse returns the sorted names of the congestion controls of this process's TCP sockets.
func InUse() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if name, err := get(fd); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
