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
	userOnly   bool   // leaves the kernel's share out, which needs fewer rights
}

type counterKind int

const (
	softwareCounter counterKind = iota
	hardwareCounter
	tracepointCounter
)

const counterRemedy = "sysctl kernel.perf_event_paranoid=1, or grant CAP_PERFMON"

func (e examination) hardwareCounters() Finding {
	finding := Finding{Name: "hardware counters", Status: OK, Detail: "cycles can be counted"}
	switch err := tryCounter(counter{kind: hardwareCounter}); {
	case err == nil:
	case isRefusal(err) && tryCounter(counter{kind: hardwareCounter, userOnly: true}) == nil:
		finding.Status, finding.Detail, finding.Remedy = Limited, "in user space only: "+err.Error(), counterRemedy
	case isRefusal(err):
		finding.Status, finding.Detail, finding.Remedy = Missing, err.Error(), counterRemedy
	default:
		finding.Status, finding.Detail = Missing, fmt.Sprintf("the kernel has no counter unit of the processor: %v", err)
		finding.Remedy = "a physical machine, or a virtual one with a virtual PMU"
	}
	return finding
}

func (e examination) softwareCounters() Finding {
	finding := Finding{Name: "software counters", Status: OK, Detail: "context switches, faults and migrations can be counted"}
	if err := tryCounter(counter{kind: softwareCounter}); err != nil {
		// Counting user space only would show zero switches and migrations, which
		// is worse than no figure.
		finding.Status, finding.Detail = Limited, fmt.Sprintf("from getrusage and procfs only: %v", err)
		finding.Remedy = counterRemedy
	}
	return finding
}

func (e examination) tracepoints() Finding {
	finding := Finding{Name: "tracepoints", Status: OK, Detail: "system calls can be counted by tracepoint"}
	id, err := tracepointID(e.root)
	if err == nil {
		err = tryCounter(counter{kind: tracepointCounter, tracepoint: id})
	}
	if err != nil {
		finding.Status, finding.Detail = Missing, err.Error()
		finding.Remedy = "as root: mount -t tracefs tracefs /sys/kernel/tracing"
		if isRefusal(err) {
			finding.Remedy = "run as root, or grant CAP_PERFMON and read access to /sys/kernel/tracing"
		}
	}
	return finding
}

func tracepointID(root fs.FS) (uint64, error) {
	const file = "/events/raw_syscalls/sys_enter/id"
	text, err := readText(root, "sys/kernel/tracing"+file)
	if err != nil {
		// Kernels before 4.1 had it here only, and some mount it here still.
		older, olderErr := readText(root, "sys/kernel/debug/tracing"+file)
		if olderErr != nil {
			return 0, fmt.Errorf("read a tracepoint's id: %w", err)
		}
		text = older
	}
	return strconv.ParseUint(text, 10, 64)
}

func (e examination) bpf() Finding {
	finding := Finding{Name: "BPF", Status: OK, Detail: "a tracing program can be loaded"}
	if err := tryBPF(); err != nil {
		finding.Status, finding.Detail = Missing, fmt.Sprintf("load a tracing program: %v", err)
		finding.Remedy = "a kernel with CONFIG_BPF_EVENTS"
		if isRefusal(err) {
			finding.Remedy = "run as root, or grant CAP_BPF and CAP_PERFMON"
		}
	}
	return finding
}

func (e examination) userNamespaces() Finding {
	finding := Finding{Name: "user namespaces", Status: OK, Detail: "a private network needs no root"}
	if err := tryUserNamespace(); err != nil {
		finding.Status, finding.Detail = Missing, fmt.Sprintf("create a user and a network namespace: %v", err)
		finding.Remedy = "raise user.max_user_namespaces, and on Ubuntu sysctl kernel.apparmor_restrict_unprivileged_userns=0"
	}
	return finding
}

// netem looks for the kernel's link emulator without adding one, because even
// asking for it in a private namespace loads the module into the whole host.
func (e examination) netem() Finding {
	finding := Finding{Name: "netem", Remedy: "a kernel with CONFIG_NET_SCH_NETEM"}
	option, err := kernelOption(e.root, e.info.Kernel, "CONFIG_NET_SCH_NETEM")
	switch {
	case fileContains(e.root, "proc/modules", "sch_netem "), option == "y":
		finding.Status, finding.Detail, finding.Remedy = OK, "in the kernel", ""
	case fileContains(e.root, "lib/modules/"+e.info.Kernel+"/modules.dep", "/sch_netem.ko"):
		finding.Status, finding.Detail, finding.Remedy = Limited, "a module that is not loaded", "as root: modprobe sch_netem"
	case option == "m":
		finding.Status, finding.Detail = Missing, "built as a module that is not installed"
		finding.Remedy = "install the kernel's extra modules, then modprobe sch_netem"
	case err == nil:
		finding.Status, finding.Detail = Missing, "this kernel was built without it"
	default:
		finding.Status, finding.Detail = Missing, "not found: "+err.Error()
	}
	return finding
}

func (e examination) descriptors() Finding {
	limit := e.info.FileLimit
	finding := Finding{
		Name: "descriptors", Status: OK,
		Detail: fmt.Sprintf("%d open files a process, %d at most", limit.Soft, limit.Hard),
	}
	// A descriptor a connection at either end, for thousands of clients.
	const comfortable = 16384
	if limit.Hard < comfortable {
		finding.Status = Limited
		finding.Remedy = "raise the hard limit: ulimit -Hn, LimitNOFILE= or limits.conf"
	}
	return finding
}

func (e examination) ports() Finding {
	tcp := e.info.TCP
	if tcp.LastPort == 0 {
		return Finding{
			Name: "local ports", Status: Limited, Detail: "the range is unknown",
			Remedy: "mount procfs on /proc, on Linux",
		}
	}
	count := tcp.LastPort - tcp.FirstPort + 1
	finding := Finding{
		Name: "local ports", Status: OK,
		Detail: fmt.Sprintf("%d connections to one address at a time (ports %d to %d)", count, tcp.FirstPort, tcp.LastPort),
	}
	const usual = 28000 // Linux's default range holds 28,232
	if count < usual {
		finding.Status = Limited
		finding.Remedy = `sysctl net.ipv4.ip_local_port_range="10240 65535"`
	}
	return finding
}

func isRefusal(err error) bool { return errors.Is(err, fs.ErrPermission) }

func fileContains(root fs.FS, path, text string) bool {
	content, err := fs.ReadFile(root, path)
	return err == nil && bytes.Contains(content, []byte(text))
}
