package selftest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setThreadClass sets the scheduling class of the calling thread.
func setThreadClass(c schedulingClass) error {
	attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr}
	switch c {
	case realTimeClass:
		attributes.Policy, attributes.Priority = unix.SCHED_FIFO, 50
	case idleClass:
		attributes.Policy = unix.SCHED_IDLE
	default:
		return nil
	}
	if err := unix.SchedSetAttr(0, &attributes, 0); err != nil {
		return fmt.Errorf("set the scheduling class of a thread to %s: %w", c, err)
	}
	return nil
}

func setReceiveBuffer(raw syscall.RawConn, sizeBytes int) error {
	var refused error
	err := raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, sizeBytes)
	})
	if err != nil {
		return err
	}
	return refused
}

// pauseProcess stops a process for a time, and then continues it.
func pauseProcess(pid int, d time.Duration) {
	if pid <= 0 || unix.Kill(pid, unix.SIGSTOP) != nil {
		return
	}
	time.Sleep(d)
	_ = unix.Kill(pid, unix.SIGCONT)
}

// moveToCPUs moves all threads of a process to these CPUs.
func moveToCPUs(pid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err == nil {
			err = unix.SchedSetaffinity(tid, &set)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pageOut removes a process's mapped files from memory, but not pages that others have mapped.
func pageOut(pid int) error {
	ranges, err := mappedFiles(pid)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	for len(ranges) > 0 {
		n := min(len(ranges), 1024) // UIO_MAXIOV, the kernel's limit
		// The library unix has no function for process_madvise(2).
		_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&ranges[0])), uintptr(n), unix.MADV_PAGEOUT, 0, 0)
		if errno != 0 {
			return errno
		}
		ranges = ranges[n:]
	}
	return nil
}

// mappedFiles returns the address ranges into which a process has mapped files.
func mappedFiles(pid int) ([]unix.RemoteIovec, error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer maps.Close() //nolint:errcheck // it was only read
	var ranges []unix.RemoteIovec
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// fields (proc_pid_maps(5)): begin-end, perms, offset, device, inode, path
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasPrefix(fields[5], "/") {
			continue
		}
		var begin, end uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &begin, &end); err != nil {
			return nil, err
		}
		ranges = append(ranges, unix.RemoteIovec{Base: begin, Len: int(end - begin)})
	}
	return ranges, nil
}

// disableHugePages disables huge pages for processes that this process starts, until undo is
// called.
func disableHugePages() (undo func() error, err error) {
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	return func() error { return unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) }, nil
}

// enterTimeNamespace sets the monotonic clock forward for programs that the calling thread starts.
func enterTimeNamespace(ahead time.Duration) error {
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return err
	}
	file := fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid())
	return os.WriteFile(file, fmt.Appendf(nil, "monotonic %d 0\n", int64(ahead/time.Second)), 0)
}

// enterNameServerNamespace makes programs that the calling thread starts use only this name server.
func enterNameServerNamespace(server, directory string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	file := filepath.Join(directory, "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver "+server+"\n"), 0o644); err != nil {
		return err
	}
	return unix.Mount(file, "/etc/resolv.conf", "", unix.MS_BIND, "")
}

// stepClock moves this machine's wall clock by a duration.
func stepClock(by time.Duration) error {
	now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}
