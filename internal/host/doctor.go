package host

import (
	"context"
	"io/fs"
	"os"
	"time"
)

// Status says whether the machine can do something.
type Status string

// The three values of Status.
const (
	OK      Status = "ok"
	Limited Status = "limited"
	Missing Status = "missing"
)

// Finding is one thing that this machine can measure or do, or cannot.
type Finding struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Detail says what was found, or why not.
	Detail string `json:"detail"`
	// Remedy says what would improve it; "" if nothing is wrong.
	Remedy string `json:"remedy,omitempty"`
}

// Doctor examines the machine by trying each ability, in under a second, and
// leaves nothing changed. It stops early, with what it has, when ctx ends.
func Doctor(ctx context.Context) []Finding {
	machine := examination{root: os.DirFS("/"), info: Describe()}
	findings := []Finding{}
	for _, check := range []func(examination) Finding{
		examination.placement,
		examination.quota,
		examination.priority,
		examination.realTime,
		examination.governor,
		examination.clocksource,
		examination.timers,
		examination.noise,
		examination.pressure,
		examination.hardwareCounters,
		examination.softwareCounters,
		examination.tracepoints,
		examination.bpf,
		examination.userNamespaces,
		examination.networkNamespaces,
		examination.netem,
		examination.descriptors,
		examination.ports,
		examination.closedPorts,
		examination.backlog,
		examination.udpBuffer,
	} {
		if ctx.Err() != nil {
			break
		}
		findings = append(findings, check(machine))
	}
	return findings
}

// examination holds what the checks read: the root folder, and Describe's result.
type examination struct {
	root fs.FS
	info Info
}

const (
	timerRounds = 100
	spinTime    = 150 * time.Millisecond
)
