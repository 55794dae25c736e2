package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

func (e examination) placement() Finding {
	placement := Place(e.info.Topology, Want{})
	if err := OnDisposableThread(func() error { return pinThread(placement.Server) }); err != nil {
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
	stopped := "; that it stops a process cannot be seen here"
	if throttled, err := openThrottle("/", "self").Read(); err == nil {
		stopped = fmt.Sprintf("; so far it stopped this one's groups %d times", throttled.Periods)
	}
	return limited("lift the control group's CPU limit",
		"%.3g CPUs; a process that uses more is stopped for part of every period, which raises tail latencies%s", quota, stopped)
}

// neighbours looks whether the processes that disturb a trial can be named.
func (e examination) neighbours() Finding {
	others := 0
	for pid := range TakeCensus() {
		if pid != os.Getpid() {
			others++
		}
	}
	if others == 0 {
		return limited("mount /proc without hidepid; in a container, share the machine's process namespace",
			"no other process is visible: what disturbs a trial is measured, and not named")
	}
	return ok("%d other processes are visible, and named if they disturb a trial", others)
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
	late := make([]time.Duration, timerRounds)
	for i := range late {
		start := time.Now()
		time.Sleep(time.Millisecond)
		late[i] = time.Since(start) - time.Millisecond
	}
	slices.Sort(late)
	median, tail := late[timerRounds/2], late[timerRounds*99/100]
	finding := ok("a 1 ms sleep ends late by %v (median), %v (P99)", rounded(median), rounded(tail))
	if tail > time.Millisecond {
		return limited("stop other work on this machine; finer schedules need a busy-waiting CPU", "%s", finding.Detail)
	}
	return finding
}

// noise runs a busy loop on every allowed CPU and measures what the hypervisor and
// other processes take.
func (e examination) noise() Finding {
	before, beforeErr := Snapshot()
	noise := Calibrate(nil, spinTime)
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
