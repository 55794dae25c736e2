package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// A perfCounter is a perf event that Doctor tries to open.
type perfCounter struct {
	kind       counterKind
	tracepoint uint64 // id of the tracepoint, if kind is tracepointCounter
	userOnly   bool   // counts in user space only, which needs fewer rights
}

type counterKind int

const (
	softwareCounter counterKind = iota
	hardwareCounter
	tracepointCounter
)

const counterRemedy = "sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON"

func (e examination) hardwareCounters() Finding {
	switch err := tryCounter(perfCounter{kind: hardwareCounter}); {
	case err == nil:
		return okFinding("wirelab can count CPU cycles")
	case isPermissionError(err) && tryCounter(perfCounter{kind: hardwareCounter, userOnly: true}) == nil:
		return limitedFinding(counterRemedy, "wirelab can count CPU cycles in user space only: %v", err)
	case isPermissionError(err):
		return missingFinding(counterRemedy, "wirelab cannot count CPU cycles: %v", err)
	default:
		return missingFinding("use a physical machine, or a virtual machine with a PMU", "the kernel cannot use the processor's counters: %v", err)
	}
}

func (e examination) softwareCounters() Finding {
	if err := tryCounter(perfCounter{kind: softwareCounter}); err != nil {
		// A count in user space would always be zero, because the kernel makes the switches.
		return limitedFinding(counterRemedy, "wirelab can read context switches and faults from getrusage and procfs only: %v", err)
	}
	return okFinding("wirelab can count context switches, faults and migrations")
}

func (e examination) countSystemCalls() error {
	id, err := tracepointID(e.root)
	if err != nil {
		return err
	}
	return tryCounter(perfCounter{kind: tracepointCounter, tracepoint: id})
}

func tracepointID(root fs.FS) (uint64, error) {
	const file = "/events/raw_syscalls/sys_enter/id"
	text, err := readText(root, "sys/kernel/tracing"+file)
	if err != nil { // kernels before 4.1, and some later ones, mount tracefs only below debugfs
		var olderErr error
		if text, olderErr = readText(root, "sys/kernel/debug/tracing"+file); olderErr != nil {
			return 0, fmt.Errorf("read a tracepoint's id: %w", err)
		}
	}
	return strconv.ParseUint(text, 10, 64)
}

// netem reports whether the kernel's link emulator is installed. It does not try the emulator,
// because that would load a kernel module.
func (e examination) netem() Finding {
	const build = "use a kernel with CONFIG_NET_SCH_NETEM"
	option, err := kernelOption(e.root, e.info.Kernel, "CONFIG_NET_SCH_NETEM")
	switch {
	case fileContains(e.root, "proc/modules", "sch_netem "), option == "y":
		return okFinding("the kernel has netem")
	case fileContains(e.root, "lib/modules/"+e.info.Kernel+"/modules.dep", "/sch_netem.ko"):
		return limitedFinding("as root: modprobe sch_netem", "the module sch_netem is not loaded")
	case option == "m":
		return missingFinding("install the kernel's extra modules, then run as root: modprobe sch_netem", "the module sch_netem is not installed")
	case err == nil:
		return missingFinding(build, "this kernel was built without netem")
	default:
		return missingFinding(build, "wirelab did not find netem: %v", err)
	}
}

func (e examination) descriptors() Finding {
	limit := e.info.FileLimit
	// Enough for thousands of clients, because each process needs one descriptor per connection.
	const comfortable = 16384
	return okOrLimited(limit.Hard >= comfortable, "raise the hard limit of open files with ulimit -Hn, LimitNOFILE= or limits.conf",
		"a process may open %d files; the hard limit is %d", limit.Soft, limit.Hard)
}

func (e examination) localPorts() Finding {
	tcp := e.info.TCP
	if tcp.LastPort == 0 {
		return limitedFinding("on Linux, mount procfs on /proc", "the range of local ports is unknown")
	}
	count := tcp.LastPort - tcp.FirstPort + 1
	const usual = 28000 // Linux's default range holds 28,232
	return okOrLimited(count >= usual, `sysctl net.ipv4.ip_local_port_range="10240 65535"`,
		"at most %d connections to one address at a time (local ports %d to %d)", count, tcp.FirstPort, tcp.LastPort)
}

func (e examination) closedPorts() Finding {
	held := timeWait(&facts{root: e.root})
	return okOrLimited(held < timeWaitDefault,
		"sysctl net.ipv4.tcp_tw_reuse=2 net.ipv4.tcp_timestamps=1; until then, clients use several source addresses",
		"a closed loopback connection keeps its ports for %v", held)
}

func (e examination) backlog() Finding {
	have := e.info.TCP.ListenBacklog
	const comfortable = 1024 // the published studies have up to 512 clients
	return okOrLimited(have >= comfortable, "sysctl net.core.somaxconn=4096", "up to %d connections may wait until a server accepts them", have)
}

func (e examination) udpBuffer() Finding {
	remedy := fmt.Sprintf("sysctl net.core.rmem_max=%d, or grant CAP_NET_ADMIN", QUICReceiveBuffer)
	have, err := tryUDPReceive(QUICReceiveBuffer)
	if err != nil {
		return limitedFinding(remedy, "the receive buffer of a QUIC socket is unknown: %v", err)
	}
	return okOrLimited(have >= QUICReceiveBuffer, remedy, "a QUIC socket gets a receive buffer of %d KiB; quic-go asks for %d KiB", have>>10, QUICReceiveBuffer>>10)
}

func okOrLimited(condition bool, remedy, format string, args ...any) Finding {
	if condition {
		return okFinding(format, args...)
	}
	return limitedFinding(remedy, format, args...)
}

func isPermissionError(err error) bool { return errors.Is(err, fs.ErrPermission) }

func fileContains(root fs.FS, path, text string) bool {
	content, err := fs.ReadFile(root, path)
	return err == nil && bytes.Contains(content, []byte(text))
}
