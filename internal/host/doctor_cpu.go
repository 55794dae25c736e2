package host

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

func (e examination) placement() Finding {
	finding := Finding{Name: "CPU placement"}
	placement := Place(e.info.Topology, Want{})
	finding.Detail = fmt.Sprintf("server on CPU %s, clients on %s, of %d allowed CPUs on %d cores",
		join(placement.Server), join(placement.Client), len(e.info.Topology.Allowed), e.info.Cores)
	err := OnDisposableThread(func() error { return pinThread(placement.Server) })
	switch {
	case err != nil:
		finding.Status, finding.Detail = Missing, err.Error()
		finding.Remedy = "allow sched_setaffinity, on Linux"
	case len(placement.Warnings) > 0:
		finding.Status = Limited
		finding.Detail += "; " + strings.Join(placement.Warnings, "; ")
		finding.Remedy = "run where four or more CPUs of one kind are allowed"
	default:
		finding.Status = OK
	}
	return finding
}

func (e examination) quota() Finding {
	quota := e.info.Topology.QuotaCPUs
	if quota == 0 {
		return Finding{Name: "CPU quota", Status: OK, Detail: "none set"}
	}
	return Finding{
		Name: "CPU quota", Status: Limited,
		Detail: fmt.Sprintf("%.3g CPUs; a process that uses more is stopped for part of every period, which raises tail latencies", quota),
		Remedy: "lift the control group's CPU limit",
	}
}

func (e examination) priority() Finding {
	finding := Finding{Name: "priority", Status: OK, Detail: "nice -20 is granted"}
	if err := OnDisposableThread(func() error { return reniceThread(-20) }); err != nil {
		finding.Status, finding.Detail = Missing, "nice -20 is refused"
		finding.Remedy = "run as root, grant CAP_SYS_NICE, or raise RLIMIT_NICE to 40; on Linux"
		return finding
	}
	if readInt(e.root, "proc/sys/kernel/sched_autogroup_enabled", 0) == 1 {
		finding.Detail += "; autogroup limits it to the session, so each worker gets its own session with that priority"
	}
	return finding
}

func (e examination) realTime() Finding {
	finding := Finding{Name: "real-time priority", Status: OK, Detail: "SCHED_FIFO is granted"}
	if err := OnDisposableThread(tryRealTime); err != nil {
		finding.Status, finding.Detail = Missing, fmt.Sprintf("SCHED_FIFO is refused: %v", err)
		finding.Remedy = "run as root, or grant CAP_SYS_NICE; with version 1 control groups also set cpu.rt_runtime_us"
	}
	return finding
}

func (e examination) governor() Finding {
	finding := Finding{Name: "CPU frequency", Status: OK, Detail: "governor " + e.info.Governor}
	switch e.info.Governor {
	case "performance":
	case "":
		finding.Detail = "the machine shows no governor, so it cannot be set"
		finding.Status = Limited
		finding.Remedy = "none in a virtual machine; compare only interleaved trials"
	default:
		finding.Status = Limited
		finding.Remedy = "cpupower frequency-set -g performance"
	}
	return finding
}

func (e examination) clocksource() Finding {
	finding := Finding{Name: "clock source", Status: OK, Detail: e.info.Clocksource}
	// Programs read these without a system call (vDSO). Reading the others takes
	// a microsecond or more, which adds to every latency.
	fast := []string{"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}
	switch {
	case e.info.Clocksource == "":
		finding.Status, finding.Detail = Limited, "unknown"
		finding.Remedy = "mount sysfs on /sys, on Linux"
	case !slices.Contains(fast, e.info.Clocksource):
		finding.Status = Limited
		finding.Detail += " is slow to read"
		finding.Remedy = "boot with clocksource=tsc where the processor's counter is stable"
	}
	return finding
}

// timers measures how late a sleep of one millisecond ends.
func (e examination) timers() Finding {
	late := make([]time.Duration, timerRounds)
	for i := range late {
		start := time.Now()
		time.Sleep(time.Millisecond)
		late[i] = time.Since(start) - time.Millisecond
	}
	slices.Sort(late)
	median, tail := late[timerRounds/2], late[timerRounds*99/100]
	finding := Finding{
		Name: "timer lateness", Status: OK,
		Detail: fmt.Sprintf("a 1 ms sleep ends late by %v (median), %v (P99)", rounded(median), rounded(tail)),
	}
	if tail > time.Millisecond {
		finding.Status = Limited
		finding.Remedy = "stop other work on this machine; finer schedules need a busy-waiting CPU"
	}
	return finding
}

// noise runs a busy loop on every allowed CPU and measures what the hypervisor and
// other processes take.
func (e examination) noise() Finding {
	finding := Finding{Name: "noise", Status: OK}
	before, beforeErr := Snapshot()
	noise := Calibrate(nil, spinTime)
	after, afterErr := Snapshot()
	if len(noise.CPUs) == 0 {
		finding.Status, finding.Detail = Missing, strings.Join(noise.Warnings, "; ")
		finding.Remedy = "allow sched_setaffinity, on Linux"
		return finding
	}
	finding.Detail = fmt.Sprintf("a spinning thread lost %.2f %% of its CPU, at most %v at once",
		100*noise.LostShare, rounded(noise.LargestGap))
	stolen := 0.0
	if err := errors.Join(beforeErr, afterErr); err != nil {
		finding.Detail += "; " + err.Error()
	} else {
		stolen = after.Since(before, 0).StolenShare
		finding.Detail += fmt.Sprintf("; the hypervisor stole %.1f %%", 100*stolen)
	}
	const tolerable = 0.02
	if noise.LostShare > tolerable || stolen > tolerable {
		finding.Status = Limited
		finding.Remedy = "stop other work on this machine, or use a dedicated one; trials will be marked noisy"
	}
	return finding
}

func (e examination) pressure() Finding {
	if _, err := fs.Stat(e.root, "proc/pressure/cpu"); err != nil {
		return Finding{
			Name: "pressure", Status: Missing, Detail: "/proc/pressure/cpu: " + cause(err),
			Remedy: "boot with psi=1 on a kernel with CONFIG_PSI",
		}
	}
	return Finding{Name: "pressure", Status: OK, Detail: "waiting for a CPU is counted (PSI)"}
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

func join(cpus []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
}
