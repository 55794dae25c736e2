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

// AllowedCPUs returns the calling thread's CPUs. They are the process's, as long as only
// disposable threads are pinned.
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

// PinThread binds the calling thread to CPUs. The thread must end after its work.
func PinThread(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("set CPU affinity: %w (the CPUs must be online and in this process's cpuset)", err)
	}
	return nil
}

// reniceThread changes one thread: Linux keeps nice values by thread (setpriority(2)).
func reniceThread(nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("set priority: %w (%w): run as root, grant CAP_SYS_NICE, or raise RLIMIT_NICE to %d", err, ErrUnsupported, 20-nice)
	}
	return nil
}

func onFirstThread() bool { return unix.Gettid() == unix.Getpid() }

// threadCPU and processCPU are exact, unlike getrusage, which lags by up to a timer tick.
func threadCPU() time.Duration { return cpuClock(unix.CLOCK_THREAD_CPUTIME_ID) }

func processCPU() time.Duration { return cpuClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func cpuClock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0 // Linux has had both since 2.6.12
	}
	return time.Duration(t.Nano())
}

// startWithParent starts a child that the kernel kills when the calling thread ends.
func startWithParent(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setsid = unix.SIGKILL, true
	return cmd.Start()
}

// reniceSession gives the same nice value to the autogroup of a session's leader: where the
// scheduler groups tasks by session (sched(7), "The autogroup feature"), the nice value of a
// process counts only within its session. Other schedulers have no such file.
func reniceSession(pid, nice int) error {
	err := os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(nice)), 0)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("set the session's priority: %w (%w): run as root or grant CAP_SYS_NICE", err, ErrUnsupported)
}

// awaitExit returns when the child has exited, and leaves it to be reaped.
func awaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

func fileLimit() (FileLimit, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return FileLimit{}, fmt.Errorf("read descriptor limit: %w", err)
	}
	return FileLimit{Soft: limit.Cur, Hard: limit.Max}, nil
}

// RaiseFileLimit raises the soft limit of descriptors to the hard one, for this process and its
// children, and returns it. Go raises its own limit at start, but hands the old one down.
func RaiseFileLimit() (uint64, error) {
	limit, err := fileLimit()
	if err != nil {
		return 0, err
	}
	// The syscall package tells Go not to restore the old limit in children.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Hard, Max: limit.Hard}); err != nil {
		return limit.Soft, fmt.Errorf("raise descriptor limit from %d to %d: %w", limit.Soft, limit.Hard, err)
	}
	return limit.Hard, nil
}

// tryRealTime asks for SCHED_FIFO on the calling thread.
func tryRealTime() error {
	attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	return unix.SchedSetAttr(0, &attributes, 0)
}

// tryCounter opens and closes one perf event on the calling thread.
func tryCounter(event counter) error {
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

// tryBPF loads a program that returns zero, of the type that counts system calls, and drops it.
func tryBPF() error {
	// struct bpf_insn of linux/bpf.h: "r0 = 0" (BPF_ALU64|BPF_MOV|BPF_K) and
	// "exit" (BPF_JMP|BPF_EXIT), eight bytes each.
	program := [2][8]byte{{0: 0xb7}, {0: 0x95}}
	license := [4]byte{'G', 'P', 'L'}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&program)
	pinned.Pin(&license)
	// The head of union bpf_attr for BPF_PROG_LOAD; the rest reads as zero.
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

// tryUDPReceive returns the receive buffer of a socket that asks for it in every allowed way. The
// kernel doubles the size for its own bookkeeping (socket(7), SO_RCVBUF).
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

// tryUserNamespace starts a child in a user and a network namespace of its own. Its program does
// not exist, so nothing ever runs: "no such file" means that the namespaces were granted.
func tryUserNamespace() error {
	pid, err := syscall.ForkExec("/proc/self/no-such-program", nil, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		},
	})
	if err == nil {
		return fmt.Errorf("a program that does not exist runs as %d", pid)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
