package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// counter names one perf event to try.
type counter struct {
	kind       counterKind
	tracepoint uint64 // its id, for a tracepoint
	userOnly   bool   // without the kernel's share; needs fewer rights
}

type counterKind int

const (
	softwareCounter counterKind = iota
	hardwareCounter
	tracepointCounter
)

const counterRemedy = "sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON"

func (e examination) hardwareCounters() Finding {
	switch err := tryCounter(counter{kind: hardwareCounter}); {
	case err == nil:
		return ok("cycles can be counted")
	case isRefusal(err) && tryCounter(counter{kind: hardwareCounter, userOnly: true}) == nil:
		return limited(counterRemedy, "in user space only: %v", err)
	case isRefusal(err):
		return missing(counterRemedy, "%v", err)
	default:
		return missing("a physical machine, or a virtual one with a virtual PMU", "the kernel has no counter unit of the processor: %v", err)
	}
}

func (e examination) softwareCounters() Finding {
	if err := tryCounter(counter{kind: softwareCounter}); err != nil {
		// A count of user space only would show zero switches, which is worse than no figure.
		return limited(counterRemedy, "from getrusage and procfs only: %v", err)
	}
	return ok("context switches, faults and migrations can be counted")
}

func (e examination) countSystemCalls() error {
	id, err := tracepointID(e.root)
	if err != nil {
		return err
	}
	return tryCounter(counter{kind: tracepointCounter, tracepoint: id})
}

func tracepointID(root fs.FS) (uint64, error) {
	const file = "/events/raw_syscalls/sys_enter/id"
	text, err := readText(root, "sys/kernel/tracing"+file)
	if err != nil { // kernels before 4.1 had it in the second place only, and some mount it there still
		var olderErr error
		if text, olderErr = readText(root, "sys/kernel/debug/tracing"+file); olderErr != nil {
			return 0, fmt.Errorf("read a tracepoint's id: %w", err)
		}
	}
	return strconv.ParseUint(text, 10, 64)
}

// netem looks for the link emulator without adding a link, which would load its module.
func (e examination) netem() Finding {
	const build = "a kernel with CONFIG_NET_SCH_NETEM"
	option, err := kernelOption(e.root, e.info.Kernel, "CONFIG_NET_SCH_NETEM")
	switch {
	case fileContains(e.root, "proc/modules", "sch_netem "), option == "y":
		return ok("in the kernel")
	case fileContains(e.root, "lib/modules/"+e.info.Kernel+"/modules.dep", "/sch_netem.ko"):
		return limited("as root: modprobe sch_netem", "a module that is not loaded")
	case option == "m":
		return missing("install the kernel's extra modules, then modprobe sch_netem", "built as a module that is not installed")
	case err == nil:
		return missing(build, "this kernel was built without it")
	default:
		return missing(build, "not found: %v", err)
	}
}

func (e examination) descriptors() Finding {
	limit := e.info.FileLimit
	// One descriptor per connection at either end, for thousands of clients.
	const comfortable = 16384
	return enough(limit.Hard >= comfortable, "raise the hard limit: ulimit -Hn, LimitNOFILE= or limits.conf",
		"%d open files per process, %d at most", limit.Soft, limit.Hard)
}

func (e examination) ports() Finding {
	tcp := e.info.TCP
	if tcp.LastPort == 0 {
		return limited("mount procfs on /proc, on Linux", "the range is unknown")
	}
	count := tcp.LastPort - tcp.FirstPort + 1
	const usual = 28000 // Linux's default range holds 28,232
	return enough(count >= usual, `sysctl net.ipv4.ip_local_port_range="10240 65535"`,
		"%d connections to one address at a time (ports %d to %d)", count, tcp.FirstPort, tcp.LastPort)
}

// closedPorts reports how soon the port of a closed connection can be used again.
func (e examination) closedPorts() Finding {
	held := timeWait(&facts{root: e.root})
	return enough(held < timeWaitDefault,
		"sysctl net.ipv4.tcp_tw_reuse=2 net.ipv4.tcp_timestamps=1; until then clients take more source addresses",
		"a closed loopback connection keeps its ports for %v", held)
}

func (e examination) backlog() Finding {
	have := e.info.TCP.ListenBacklog
	const comfortable = 1024 // twice the most clients of the published studies
	return enough(have >= comfortable, "sysctl net.core.somaxconn=4096", "%d connections may wait for a server", have)
}

func (e examination) udpBuffer() Finding {
	remedy := fmt.Sprintf("sysctl net.core.rmem_max=%d, or grant CAP_NET_ADMIN", WantUDPReceive)
	have, err := tryUDPReceive(WantUDPReceive)
	if err != nil {
		return limited(remedy, "%v", err)
	}
	return enough(have >= WantUDPReceive, remedy, "QUIC gets %d KiB of the %d KiB that it asks for", have>>10, WantUDPReceive>>10)
}

// enough returns OK if the condition holds, and Limited otherwise.
func enough(condition bool, remedy, format string, args ...any) Finding {
	if condition {
		return ok(format, args...)
	}
	return limited(remedy, format, args...)
}

func isRefusal(err error) bool { return errors.Is(err, fs.ErrPermission) }

func fileContains(root fs.FS, path, text string) bool {
	content, err := fs.ReadFile(root, path)
	return err == nil && bytes.Contains(content, []byte(text))
}
