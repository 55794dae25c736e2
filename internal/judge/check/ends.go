package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// An end is the client or the server, with its name for messages.
type end struct {
	name string
	*record.Process
}

func (t trial) ends() []end {
	both := []end{{"client", &t.Client}, {"server", &t.Server}}
	return slices.DeleteFunc(both, func(e end) bool { return t.only != "" && e.name != t.only })
}

// checkAffinity checks that each end could run only on its assigned CPUs. Ends that share CPUs slow
// each other down.
func (t trial) checkAffinity() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Limit: &t.limits.Moved.Invalid}
	client, server := t.Client, t.Server
	var had, found []string
	known := false
	for _, e := range t.ends() {
		had = append(had, fmt.Sprintf("the %s could run on CPU %s", e.name, cpuList(e.AllowedCPUs)))
		if len(e.AllowedCPUs) == 0 || len(e.CPUs) == 0 {
			continue
		}
		known = true
		if !slices.Equal(e.AllowedCPUs, e.CPUs) {
			found = append(found, fmt.Sprintf("the %s was assigned to CPU %s but could run on CPU %s", e.name, cpuList(e.CPUs), cpuList(e.AllowedCPUs)))
		}
	}
	if !known {
		c.Level, c.Detail = record.Unknown, "neither client nor server reported the CPUs on which it could run"
		return c
	}
	if shared := commonCPUs(client.AllowedCPUs, server.AllowedCPUs); len(shared) > 0 && !t.Cell.Unpinned {
		found = append(found, "client and server could both run on CPU "+cpuList(shared))
		c.Figure = t.sharedCPUSlowdown()
	}
	c.Detail = strings.Join(had, ", ")
	if len(found) == 0 {
		return c
	}
	c.Level, c.Detail = record.Warning, strings.Join(found, "; ")
	asked := len(commonCPUs(client.CPUs, server.CPUs)) > 0 // both ends were assigned to one CPU
	if t.Cell.Kind().Unplaced || t.Cell.Target != "" {     // wirelab could not place the service
		if c.Figure != nil && t.limits.Moved.level(*c.Figure) == record.OK {
			c.Level = record.OK
			c.Detail += ", but used too little CPU time to be in each other's way"
			return c
		}
		c.Detail += fmt.Sprintf(": start the service on other CPUs than %s, as in `taskset -c CPU ./service`", cpuList(client.CPUs))
		return c
	}
	if !asked && c.Figure != nil && t.limits.Moved.level(*c.Figure) == record.Invalid {
		c.Level = record.Invalid
		c.Detail += ": " + shift{"each request", *c.Figure}.describe()
	}
	return c
}

// sharedCPUSlowdown returns an upper bound for how much two ends on the same CPUs slow each other
// down. An end waits for the other end at most as long as the less busy end ran.
func (t trial) sharedCPUSlowdown() *float64 {
	client, known := t.Client.CPUNS()
	server, knownToo := t.Server.CPUNS()
	if !known || !knownToo || t.WindowNS <= 0 {
		return nil
	}
	cpus := min(len(t.Client.AllowedCPUs), len(t.Server.AllowedCPUs))
	share := float64(min(client, server)) / float64(t.WindowNS) / float64(cpus)
	return new(slowdown(share))
}

// slowdown returns how much longer work takes if it lacks a share of the time.
func slowdown(share float64) float64 {
	const most = 0.99 // limits the result to 100
	share = min(share, most)
	return share / (1 - share)
}

// checkQuota checks that no control group stopped an end because its CPU quota was used up.
func (t trial) checkQuota() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "neither client nor server reported the limits of its control groups"}
	worst := shift{by: -1}
	for _, e := range t.ends() {
		if e.ThrottledNS == nil || e.ThrottledPeriods == nil {
			continue
		}
		if c.Level == record.Unknown {
			setVerdict(&c, record.OK, "no CPU quota stopped the client or the server in the window")
		}
		each := float64(*e.ThrottledNS) / float64(max(1, *e.ThrottledPeriods))
		by := t.boundShift(t.newStop(float64(*e.ThrottledPeriods), each))
		switch {
		case *e.ThrottledPeriods > 0 && by.by > worst.by:
			worst = by
			c.Figure = &worst.by
			granted := ""
			if e.QuotaCPUs != nil {
				granted = fmt.Sprintf(" (%.3g CPUs)", *e.QuotaCPUs)
			}
			setVerdict(&c, t.limits.Moved.atLeastWarning(by.by), "the %s was stopped %d times, for %s on average, because it had used up the CPU quota of its control groups%s: %s; raise or remove the quota",
				e.name, *e.ThrottledPeriods, units.Time(each), granted, by.describe())
		case e.QuotaCPUs != nil && *e.QuotaCPUs < float64(len(e.CPUs)) && worst.by < 0:
			setVerdict(&c, record.Warning, "the control groups of the %s allow %.3g CPUs, but %d CPUs were assigned: the quota did not stop the process in this window, but may in another; raise or remove the quota", e.name, *e.QuotaCPUs, len(e.CPUs))
		}
	}
	return c
}

// checkCollector checks that the client's garbage collector ran no more often than by default. With
// default settings, the collector's CPU time is a cost of the client's libraries.
func (t trial) checkCollector() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "the client did not report GOGC and the CPU time of its garbage collector"}
	cpu, known := t.Client.CPUNS()
	if !known || cpu <= 0 || t.Client.GCCPUNS == nil || t.Client.GCPercent == nil {
		return c
	}
	took, percentSet := float64(*t.Client.GCCPUNS)/float64(cpu), *t.Client.GCPercent
	if percentSet >= defaultGOGC || percentSet < 0 {
		c.Figure, c.Limit = &took, &t.limits.Collected
		setVerdict(&c, record.OK, "the garbage collector used %s of the client's CPU time", units.Percent(took))
		if took > t.limits.Collected {
			c.Level = record.Warning
			c.Detail += ": this cost of the client is part of the result"
		}
		return c
	}
	// The collector runs 1/GOGC times as often. The bound is for a request that spends all of its
	// time in the client.
	by := shift{"the mean", slowdown(took * (1 - float64(percentSet)/defaultGOGC))}
	c.Figure = &by.by
	setVerdict(&c, t.limits.Moved.atLeastWarning(by.by), "the client ran with GOGC=%d, and the garbage collector used %s of its CPU time: %s; unset GOGC",
		percentSet, units.Percent(took), by.describe())
	return c
}

// checkSuspended checks that the machine did not sleep in the window. Latencies do not show a
// sleep, because the clock for latencies stops during a sleep.
func (t trial) checkSuspended() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "ms", Detail: "the client did not report whether the machine slept"}
	if t.Host.SuspendedNS == nil {
		return c
	}
	slept := float64(*t.Host.SuspendedNS)
	c.Figure, c.Limit = new(slept/1e6), new(t.limits.SleptNS/1e6)
	setVerdict(&c, record.OK, "the machine did not sleep in the window")
	if slept > t.limits.SleptNS {
		setVerdict(&c, record.Invalid, "the machine slept for %.3g s in the window, and latencies do not include this time: keep the machine awake and measure again", slept/1e9)
	}
	return c
}

func commonCPUs(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(cpu int) bool { return !slices.Contains(b, cpu) })
}

func cpuList(cpus []int) string {
	if len(cpus) == 0 {
		return "(not known)"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
}

// defaultGOGC is Go's default of GOGC, the heap growth in percent that starts a collection.
const defaultGOGC = 100

// checkRuntime checks that wirelab's environment does not change the measured program: no debugger
// traces a worker, each worker uses its assigned CPUs, and the server runs with the default GOGC.
// The client's GOGC has its own check.
func (t trial) checkRuntime() record.Check {
	c := record.Check{Level: record.OK, Unit: "CPUs", Detail: "both ends use their assigned CPUs"}
	if t.only != "" {
		c.Detail = "the " + t.only + " uses its assigned CPUs"
	}
	for _, end := range slices.Backward(t.ends()) {
		if end.TracedBy > 0 {
			c = record.Check{}
			setVerdict(&c, record.Warning, "process %d traces the %s, as strace and debuggers do: the tracer stops the %[2]s at system calls; detach the tracer", end.TracedBy, end.name)
			return c
		}
		got, want := end.GoMaxProcs, len(end.CPUs)
		if end.name == "client" && t.Cell.Load.Model != "closed" {
			want++ // in an open loop, one more thread waits for the next send
		}
		if got == 0 || len(end.CPUs) == 0 || got == want {
			continue // the number is right, or unknown for another program
		}
		c.Figure, c.Limit = new(float64(got)), new(float64(want))
		words := "the %s used at most %d of its %d CPUs: unset GOMAXPROCS"
		if got > want {
			words = "the %s ran up to %d threads on %d CPUs: unset GOMAXPROCS"
		}
		setVerdict(&c, record.Warning, words, end.name, got, want)
	}
	for _, s := range t.Settings {
		if t.only != "" && s.Side != t.only && s.Side != tuning.Both {
			continue // the setting belongs to the end that is not judged
		}
		if s.Why == tuning.ReasonEnvironment && s.Name != "GOGC" { // GOGC has its own check below
			c = record.Check{}
			setVerdict(&c, record.Warning, "%s=%s in the environment changes the measured program: unset the variable", s.Name, s.Value)
		}
	}
	asked := slices.ContainsFunc(t.Settings, func(s tuning.Setting) bool { return s.Name == "GOGC" && s.Why != tuning.ReasonEnvironment })
	if percent := t.Server.GCPercent; t.only != "client" && percent != nil && *percent != defaultGOGC && !asked {
		set := "off"
		if *percent >= 0 {
			set = strconv.FormatInt(*percent, 10)
		}
		c = record.Check{Unit: "percent", Figure: new(float64(*percent)), Limit: new(float64(defaultGOGC))}
		setVerdict(&c, record.Warning, "the server's garbage collector runs with GOGC=%s, where %d is the default: unset GOGC", set, defaultGOGC)
	}
	return c
}
