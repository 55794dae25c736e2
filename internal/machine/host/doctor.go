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

// A Status says whether the machine can do something.
type Status string

// The three values of Status.
const (
	OK      Status = "ok"
	Limited Status = "limited"
	Missing Status = "missing"
)

// A Finding is one thing that this machine can measure or do, or cannot.
type Finding struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Detail says what was found, or why not.
	Detail string `json:"detail"`
	// Remedy says what would improve it; "" if nothing is wrong.
	Remedy string `json:"remedy,omitempty"`
}

func ok(format string, args ...any) Finding {
	return Finding{Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func limited(remedy, format string, args ...any) Finding {
	return Finding{Status: Limited, Remedy: remedy, Detail: fmt.Sprintf(format, args...)}
}

func missing(remedy, format string, args ...any) Finding {
	return Finding{Status: Missing, Remedy: remedy, Detail: fmt.Sprintf(format, args...)}
}

// examination holds the input of the checks: the root folder, and Describe's result.
type examination struct {
	root fs.FS
	info Info
}

// checks are the examinations, in the order of the output.
var checks = []struct {
	name    string
	examine func(examination) Finding
}{
	{"CPU placement", examination.placement},
	{"CPU quota", examination.quota},
	{"priority", examination.priority},
	{"real-time priority", ability{
		try:     func(examination) error { return OnDisposableThread(tryRealTime) },
		granted: "SCHED_FIFO is granted", refused: "SCHED_FIFO is refused: %v",
		remedy: "run as root, or grant CAP_SYS_NICE; with version 1 control groups also set cpu.rt_runtime_us",
	}.examine},
	{"CPU frequency", examination.governor},
	{"clock source", examination.clocksource},
	{"timer lateness", examination.timers},
	{"noise", examination.noise},
	{"neighbours", examination.neighbours},
	{"pressure", ability{
		try:     examination.findPressure,
		granted: "waiting for a CPU is counted (PSI)", refused: "/proc/pressure/cpu: %v",
		remedy: "boot with psi=1 on a kernel with CONFIG_PSI",
	}.examine},
	{"hardware counters", examination.hardwareCounters},
	{"software counters", examination.softwareCounters},
	{"tracepoints", ability{
		try:     examination.countSystemCalls,
		granted: "system calls can be counted by tracepoint", refused: "%v",
		remedy: "as root: mount -t tracefs tracefs /sys/kernel/tracing",
		rights: "run as root, or grant CAP_PERFMON and read access to /sys/kernel/tracing",
	}.examine},
	{"BPF", ability{
		try:     func(examination) error { return tryBPF() },
		granted: "a tracing program can be loaded", refused: "load a tracing program: %v",
		remedy: "a kernel with CONFIG_BPF_EVENTS", rights: "run as root, or grant CAP_BPF and CAP_PERFMON",
	}.examine},
	{"user namespaces", ability{
		try:     func(examination) error { return tryUserNamespace() },
		granted: "a private network needs no root", refused: "create a user and a network namespace: %v",
		remedy: "raise user.max_user_namespaces, and on Ubuntu sysctl kernel.apparmor_restrict_unprivileged_userns=0",
	}.examine},
	{"netem", examination.netem},
	{"descriptors", examination.descriptors},
	{"local ports", examination.ports},
	{"closed connections", examination.closedPorts},
	{"listen backlog", examination.backlog},
	{"UDP receive buffer", examination.udpBuffer},
}

// An ability is tried: the machine grants or refuses it.
type ability struct {
	try              func(examination) error
	granted, refused string // details; refused formats the error
	remedy           string
	rights           string // the remedy if only rights are missing; "": the usual remedy
}

func (a ability) examine(e examination) Finding {
	err := a.try(e)
	switch {
	case err == nil:
		return ok("%s", a.granted)
	case a.rights != "" && isRefusal(err):
		return missing(a.rights, a.refused, err)
	default:
		return missing(a.remedy, a.refused, err)
	}
}

// Doctor examines the machine by trying each ability, in less than a second, and leaves nothing
// changed. If ctx ends, it returns the findings so far.
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
		return missing("allow sched_setaffinity, on Linux", "%v", err)
	}
	finding := ok("server on CPU %s, clients on %s, of %d allowed CPUs on %d cores",
		join(placement.Server), join(placement.Client), len(e.info.Topology.Allowed), e.info.Cores)
	if len(placement.Warnings) > 0 {
		return limited("run where four or more CPUs of one kind are allowed",
			"%s; %s", finding.Detail, strings.Join(placement.Warnings, "; "))
	}
	return finding
}

func (e examination) quota() Finding {
	quota := e.info.Topology.QuotaCPUs
	if quota == 0 {
		return ok("none set")
	}
	stopped := "; unknown here whether it stops processes"
	if throttled, err := openThrottle("/", "self").Read(); err == nil {
		stopped = fmt.Sprintf("; so far it stopped this one's groups %d times", throttled.Periods)
	}
	return limited("lift the control group's CPU limit",
		"%.3g CPUs; a process that uses more is stopped for part of every period, which raises tail latencies%s", quota, stopped)
}

// neighbours checks whether the processes that disturb a trial can be named.
func (e examination) neighbours() Finding {
	others := TakeCensus()
	delete(others, os.Getpid())
	if len(others) == 0 {
		return limited("mount /proc without hidepid; in a container, share the machine's process namespace",
			"no other process is visible: disturbances of a trial are measured, and not named")
	}
	return ok("%d other processes are visible, and named if they disturb a trial", len(others))
}

func (e examination) priority() Finding {
	if err := OnDisposableThread(func() error { return reniceThread(-20) }); err != nil {
		return missing("run as root, grant CAP_SYS_NICE, or raise RLIMIT_NICE to 40; on Linux", "nice -20 is refused")
	}
	if readInt(e.root, "proc/sys/kernel/sched_autogroup_enabled", 0) == 1 {
		return ok("nice -20 is granted; autogroup limits it to the session, so each worker gets its own session with that priority")
	}
	return ok("nice -20 is granted")
}

func (e examination) governor() Finding {
	switch e.info.Governor {
	case "performance":
		return ok("governor performance")
	case "":
		return limited("none in a virtual machine; compare only interleaved trials", "the machine shows no governor, so it cannot be set")
	default:
		return limited("cpupower frequency-set -g performance", "governor %s", e.info.Governor)
	}
}

func (e examination) clocksource() Finding {
	// Programs read these without a system call (vDSO). Reading the others takes
	// a microsecond or more, which adds to every latency.
	fast := []string{"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}
	switch source := e.info.Clocksource; {
	case source == "":
		return limited("mount sysfs on /sys, on Linux", "unknown")
	case !slices.Contains(fast, source):
		return limited("boot with clocksource=tsc where the processor's counter is stable", "%s is slow to read", source)
	default:
		return ok("%s", source)
	}
}

// timers measures how late a sleep of one millisecond ends.
func (e examination) timers() Finding {
	const rounds = 100
	late := make([]time.Duration, rounds)
	for i := range late {
		start := time.Now()
		time.Sleep(time.Millisecond)
		late[i] = time.Since(start) - time.Millisecond
	}
	slices.Sort(late)
	median, tail := late[rounds/2], late[rounds*99/100]
	finding := ok("a 1 ms sleep ends late by %v (median), %v (P99)", rounded(median), rounded(tail))
	if tail > time.Millisecond {
		return limited("stop other work on this machine; finer schedules need a busy-waiting CPU", "%s", finding.Detail)
	}
	return finding
}

// noise measures the share of all allowed CPUs that the hypervisor and other processes take.
func (e examination) noise() Finding {
	before, beforeErr := Snapshot()
	noise := Calibrate(nil, 150*time.Millisecond)
	after, afterErr := Snapshot()
	if noise.CPUs == 0 {
		return missing("allow sched_setaffinity, on Linux", "%s", strings.Join(noise.Warnings, "; "))
	}
	detail := fmt.Sprintf("a spinning thread lost %.2f %% of its CPU, at most %v at once", 100*noise.LostShare, rounded(noise.LargestGap))
	stolen := 0.0
	if err := errors.Join(beforeErr, afterErr); err != nil {
		detail += "; " + err.Error()
	} else {
		stolen = after.Since(before, 0).StolenShare
		detail += fmt.Sprintf("; the hypervisor stole %.1f %%", 100*stolen)
	}
	const tolerable = 0.02
	if noise.LostShare > tolerable || stolen > tolerable {
		return limited("stop other work on this machine, or use a dedicated one; trials will be marked noisy", "%s", detail)
	}
	return ok("%s", detail)
}

func (e examination) findPressure() error {
	if _, err := fs.Stat(e.root, "proc/pressure/cpu"); err != nil {
		return errors.New(cause(err))
	}
	return nil
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

func join(cpus []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
}
