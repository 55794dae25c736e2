package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AllowedCPUs returns the CPUs on which the calling thread may run. They are the CPUs of the
// process unless the thread was pinned.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read CPU affinity: %w", err)
	}
	cpus := []int{}
	for cpu := range len(set) * int(unsafe.Sizeof(set[0])) * 8 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// PinThread restricts the calling thread to the given CPUs. The thread must end after its work.
func PinThread(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin a thread to CPUs %v: %w: use CPUs that are online and in this process's cpuset", cpus, err)
	}
	return nil
}

// reniceThread changes the nice value of the calling thread only (setpriority(2)).
func reniceThread(nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("set a thread's nice value: %w (%w): run as root, grant CAP_SYS_NICE, or raise RLIMIT_NICE to %d", err, ErrUnsupported, 20-nice)
	}
	return nil
}

func onFirstThread() bool { return unix.Gettid() == unix.Getpid() }

// threadCPUTime is exact. Times of getrusage may be a timer tick old.
func threadCPUTime() time.Duration { return cpuClock(unix.CLOCK_THREAD_CPUTIME_ID) }

func processCPUTime() time.Duration { return cpuClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func cpuClock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0 // cannot happen: Linux has both clocks since 2.6.12
	}
	return time.Duration(t.Nano())
}

func startKilledWithParent(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setsid = unix.SIGKILL, true
	return cmd.Start()
}

// AdoptOrphans makes this process the parent of all descendants whose own parents end (prctl(2),
// PR_SET_CHILD_SUBREAPER).
func AdoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
}

// ReapOrphans removes the adopted processes that have ended. No other child may be waited for.
func ReapOrphans() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reniceSession sets the nice value of a session. With autogroup (sched(7)), a process's own nice
// value has an effect only inside its session. pid is the leader of the session.
func reniceSession(pid, nice int) error {
	err := os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(nice)), 0)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("set the session's priority: %w (%w): run as root or grant CAP_SYS_NICE", err, ErrUnsupported)
}

// awaitExit waits until the child has exited. The caller must still call Wait.
func awaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

func fileLimit() (FileLimit, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return FileLimit{}, fmt.Errorf("read the limit of open files: %w", err)
	}
	return FileLimit{Soft: limit.Cur, Hard: limit.Max}, nil
}

// RaiseFileLimit raises the soft limit of open files to the hard limit, and returns the new limit.
// It affects this process and its children. Go itself raises the limit only for this process.
func RaiseFileLimit() (uint64, error) {
	limit, err := fileLimit()
	if err != nil {
		return 0, err
	}
	// After a call of syscall.Setrlimit, Go no longer restores the old limit in children.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Hard, Max: limit.Hard}); err != nil {
		return limit.Soft, fmt.Errorf("raise the limit of open files from %d to %d: %w", limit.Soft, limit.Hard, err)
	}
	return limit.Hard, nil
}

func tryRealTime() error {
	attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	return unix.SchedSetAttr(0, &attributes, 0)
}

func tryCounter(event perfCounter) error {
	attributes := unix.PerfEventAttr{
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CONTEXT_SWITCHES,
		Bits:   unix.PerfBitDisabled,
	}
	switch event.kind {
	case hardwareCounter:
		attributes.Type, attributes.Config = unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES
	case tracepointCounter:
		attributes.Type, attributes.Config = unix.PERF_TYPE_TRACEPOINT, event.tracepoint
	}
	if event.userOnly {
		attributes.Bits |= unix.PerfBitExcludeKernel
	}
	fd, err := unix.PerfEventOpen(&attributes, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// tryBPF loads and removes a program that does nothing. The program has the same type as the
// programs of the probes.
func tryBPF() error {
	// struct bpf_insn of linux/bpf.h: "r0 = 0" (BPF_ALU64|BPF_MOV|BPF_K) and
	// "exit" (BPF_JMP|BPF_EXIT), eight bytes each.
	program := [2][8]byte{{0: 0xb7}, {0: 0x95}}
	license := [4]byte{'G', 'P', 'L'}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&program)
	pinned.Pin(&license)
	// The first fields of union bpf_attr for BPF_PROG_LOAD. The other fields are zero.
	request := struct {
		programType, instructions     uint32
		firstInstruction, licenseText uint64
		logLevel, logSize             uint32
		logBuffer                     uint64
		kernelVersion, programFlags   uint32
	}{
		programType:      unix.BPF_PROG_TYPE_RAW_TRACEPOINT,
		instructions:     uint32(len(program)),
		firstInstruction: uint64(uintptr(unsafe.Pointer(&program))),
		licenseText:      uint64(uintptr(unsafe.Pointer(&license))),
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD,
		uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// tryUDPReceive requests a receive buffer in both possible ways, and returns the size that the
// socket gets. It halves the kernel's value, because the kernel doubles the size for its own use
// (socket(7), SO_RCVBUF).
func tryUDPReceive(bytes int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a UDP socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) // needs CAP_NET_ADMIN
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 0, fmt.Errorf("read a UDP socket's receive buffer: %w", err)
	}
	return got / 2, nil
}

// tryUserNamespace tries to start a program that does not exist, in a new user namespace and a new
// network namespace. The error "no such file" means that the kernel allowed both namespaces.
func tryUserNamespace() error {
	pid, err := syscall.ForkExec("/proc/self/no-such-program", nil, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		},
	})
	if err == nil {
		return fmt.Errorf("try a user namespace: a program that should not exist runs as process %d", pid)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// niceOf returns the priority of a process, or 0 if it is not known.
func niceOf(pid int) int {
	const base = 20 // the system call counts down from it
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		return 0
	}
	return base - priority
}
