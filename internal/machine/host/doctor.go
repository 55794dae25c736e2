package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// A Status is the result of checking one ability of the machine.
type Status string

// The values of Status.
const (
	OK      Status = "ok"
	Limited Status = "limited"
	Missing Status = "missing"
)

// A Finding is the result of a check with an explanation.
type Finding struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Detail says what the machine can do, or why it cannot.
	Detail string `json:"detail"`
	// Remedy says what the user can do. It is empty if nothing is wrong.
	Remedy string `json:"remedy,omitempty"`
}

func okFinding(format string, args ...any) Finding {
	return Finding{Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func limitedFinding(remedy, format string, args ...any) Finding {
	return Finding{Status: Limited, Remedy: remedy, Detail: fmt.Sprintf(format, args...)}
}

func missingFinding(remedy, format string, args ...any) Finding {
	return Finding{Status: Missing, Remedy: remedy, Detail: fmt.Sprintf(format, args...)}
}

type examination struct {
	root fs.FS
	info Info
}

var checks = []struct {
	name    string
	examine func(examination) Finding
}{
	{"CPU placement", examination.placement},
	{"CPU quota", examination.quota},
	{"priority", examination.priority},
	{"real-time priority", ability{
		try:     func(examination) error { return OnDisposableThread(tryRealTime) },
		granted: "the kernel grants SCHED_FIFO", refused: "the kernel refuses SCHED_FIFO: %v",
		remedy: "run as root, or grant CAP_SYS_NICE; with version 1 control groups also set cpu.rt_runtime_us",
	}.examine},
	{"CPU frequency", examination.governor},
	{"clock source", examination.clocksource},
	{"timer lateness", examination.timerLateness},
	{"noise", examination.noise},
	{"neighbours", examination.neighbours},
	{"pressure", ability{
		try:     examination.findPressure,
		granted: "the kernel measures how long tasks wait for a CPU (PSI)", refused: "wirelab cannot read /proc/pressure/cpu: %v",
		remedy: "boot with psi=1 on a kernel with CONFIG_PSI",
	}.examine},
	{"hardware counters", examination.hardwareCounters},
	{"software counters", examination.softwareCounters},
	{"tracepoints", ability{
		try:     examination.countSystemCalls,
		granted: "wirelab can count system calls at tracepoints", refused: "wirelab cannot count system calls: %v",
		remedy: "as root: mount -t tracefs tracefs /sys/kernel/tracing",
		rights: "run as root, or grant CAP_PERFMON and read access to /sys/kernel/tracing",
	}.examine},
	{"BPF", ability{
		try:     func(examination) error { return tryBPF() },
		granted: "the kernel loads tracing programs", refused: "the kernel refuses to load a tracing program: %v",
		remedy: "use a kernel with CONFIG_BPF_EVENTS", rights: "run as root, or grant CAP_BPF and CAP_PERFMON",
	}.examine},
	{"user namespaces", ability{
		try:     func(examination) error { return tryUserNamespace() },
		granted: "wirelab can make private networks without root", refused: "wirelab cannot make a user namespace and a network namespace: %v",
		remedy: "raise sysctl user.max_user_namespaces; on Ubuntu, also set sysctl kernel.apparmor_restrict_unprivileged_userns=0",
	}.examine},
	{"netem", examination.netem},
	{"descriptors", examination.descriptors},
	{"local ports", examination.localPorts},
	{"closed connections", examination.closedPorts},
	{"listen backlog", examination.backlog},
	{"UDP receive buffer", examination.udpBuffer},
}

// An ability is something that the machine either permits or refuses when wirelab tries it.
type ability struct {
	try              func(examination) error
	granted, refused string // details of the finding; refused is a format with the error
	remedy           string
	rights           string // advice if only rights are missing; empty: use remedy
}

func (a ability) examine(e examination) Finding {
	err := a.try(e)
	switch {
	case err == nil:
		return okFinding("%s", a.granted)
	case a.rights != "" && isPermissionError(err):
		return missingFinding(a.rights, a.refused, err)
	default:
		return missingFinding(a.remedy, a.refused, err)
	}
}

// Doctor checks the machine in less than a second, without changing anything. If ctx ends, it
// returns the findings so far.
func Doctor(ctx context.Context) []Finding {
	machine := examination{root: os.DirFS("/"), info: Describe()}
	findings := []Finding{}
	for _, check := range checks {
		if ctx.Err() != nil {
			break
		}
		finding := check.examine(machine)
		finding.Name = check.name
		findings = append(findings, finding)
	}
	return findings
}

func (e examination) placement() Finding {
	placement := Place(e.info.Topology)
	if err := OnDisposableThread(func() error { return PinThread(placement.Server) }); err != nil {
		return missingFinding("on Linux, allow sched_setaffinity", "wirelab cannot choose the CPUs of a thread: %v", err)
	}
	finding := okFinding("the server runs on CPU %s, clients on CPU %s; this process may use %d CPUs, and the machine has %d cores",
		joinCPUs(placement.Server), joinCPUs(placement.Client), len(e.info.Topology.Allowed), e.info.Cores)
	if len(placement.Warnings) > 0 {
		return limitedFinding("allow this process four or more CPUs of one kind",
			"%s; %s", finding.Detail, strings.Join(placement.Warnings, "; "))
	}
	return finding
}

func (e examination) quota() Finding {
	quota := e.info.Topology.QuotaCPUs
	if quota == 0 {
		return okFinding("no CPU quota is set")
	}
	stopped := "; wirelab cannot read how often the kernel stopped this process's groups"
	if throttled, err := openThrottle("/", "self").Read(); err == nil {
		stopped = fmt.Sprintf("; so far the kernel stopped this process's groups %d times", throttled.Periods)
	}
	return limitedFinding("lift the control group's CPU limit",
		"the quota is %.3g CPUs; the kernel stops a process that uses more for a part of every period, which raises tail latencies%s", quota, stopped)
}

// neighbours checks whether wirelab can see the names of other processes.
func (e examination) neighbours() Finding {
	others := ReadProcessTable()
	delete(others, os.Getpid())
	if len(others) == 0 {
		return limitedFinding("mount /proc without hidepid; in a container, share the machine's process namespace",
			"wirelab sees no other processes: it can measure disturbances, but cannot name the programs that cause them")
	}
	return okFinding("wirelab sees %d other processes, and will name those that disturb a trial", len(others))
}

func (e examination) priority() Finding {
	if err := OnDisposableThread(func() error { return reniceThread(-20) }); err != nil {
		return missingFinding("on Linux, run as root, grant CAP_SYS_NICE, or raise RLIMIT_NICE to 40", "the kernel refuses nice -20")
	}
	if readInt(e.root, "proc/sys/kernel/sched_autogroup_enabled", 0) == 1 {
		return okFinding("the kernel grants nice -20; because of autogroup, wirelab starts each worker in its own session with this priority")
	}
	return okFinding("the kernel grants nice -20")
}

func (e examination) governor() Finding {
	switch e.info.Governor {
	case "performance":
		return okFinding("the frequency governor is performance")
	case "":
		return limitedFinding("in a virtual machine, compare only trials that ran interleaved", "the kernel shows no frequency governor, so the frequency may change")
	default:
		return limitedFinding("cpupower frequency-set -g performance", "the frequency governor is %s", e.info.Governor)
	}
}

func (e examination) clocksource() Finding {
	// Programs read these clocks without a system call (vDSO). Other clocks need a microsecond or
	// more per reading, which makes every measured latency longer.
	fast := []string{"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}
	switch source := e.info.Clocksource; {
	case source == "":
		return limitedFinding("on Linux, mount sysfs on /sys", "the clock source is unknown")
	case !slices.Contains(fast, source):
		return limitedFinding("boot with clocksource=tsc if the processor's counter is stable", "reading the clock source %s takes long", source)
	default:
		return okFinding("%s", source)
	}
}

func (e examination) timerLateness() Finding {
	const rounds = 100
	late := make([]time.Duration, rounds)
	for i := range late {
		start := time.Now()
		time.Sleep(time.Millisecond)
		late[i] = time.Since(start) - time.Millisecond
	}
	slices.Sort(late)
	median, tail := late[rounds/2], late[rounds*99/100]
	finding := okFinding("a sleep of 1 ms ends %v too late (median); P99: %v", roundToMicrosecond(median), roundToMicrosecond(tail))
	if tail > time.Millisecond {
		return limitedFinding("stop other programs on this machine", "%s", finding.Detail)
	}
	return finding
}

func (e examination) noise() Finding {
	before, beforeErr := ReadActivity()
	noise := MeasureNoise(nil, 150*time.Millisecond)
	after, afterErr := ReadActivity()
	if noise.CPUs == 0 {
		return missingFinding("on Linux, allow sched_setaffinity", "%s", strings.Join(noise.Warnings, "; "))
	}
	detail := fmt.Sprintf("other programs took %.2f %% of the CPU time of a busy thread; its longest pause was %v", 100*noise.LostShare, roundToMicrosecond(noise.LargestGap))
	stolen := 0.0
	if err := errors.Join(beforeErr, afterErr); err != nil {
		detail += "; " + err.Error()
	} else {
		stolen = after.Since(before, 0).StolenShare
		detail += fmt.Sprintf("; the hypervisor took %.1f %% of the CPU time", 100*stolen)
	}
	const tolerable = 0.02
	if noise.LostShare > tolerable || stolen > tolerable {
		return limitedFinding("stop other programs on this machine, or use a dedicated machine; otherwise trials will be marked as noisy", "%s", detail)
	}
	return okFinding("%s", detail)
}

func (e examination) findPressure() error {
	if _, err := fs.Stat(e.root, "proc/pressure/cpu"); err != nil {
		return errors.New(errorReason(err))
	}
	return nil
}

func roundToMicrosecond(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

func joinCPUs(cpus []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
}
