package host

import (
	"context"
	"fmt"
	"io/fs"
	"os"
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

// examination holds what the checks read: the root folder, and Describe's result.
type examination struct {
	root fs.FS
	info Info
}

// checks are the examinations, in the order of the output. Each returns a finding
// without its name.
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

// An ability is something that the machine grants or refuses when it is tried.
type ability struct {
	try              func(examination) error
	granted, refused string // details; refused takes the error
	remedy           string
	rights           string // the remedy if only rights are missing; "": the same
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

// Doctor examines the machine by trying each ability, in under a second, and
// leaves nothing changed. It stops early, with what it has, when ctx ends.
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

const (
	timerRounds = 100
	spinTime    = 150 * time.Millisecond
)
