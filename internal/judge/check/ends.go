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

// An end is one end of the wire, with a name for sentences.
type end struct {
	name string
	*record.Process
}

// ends returns the judged ends.
func (t trial) ends() []end {
	both := []end{{"client", &t.Client}, {"server", &t.Server}}
	return slices.DeleteFunc(both, func(e end) bool { return t.only != "" && e.name != t.only })
}

// affinity checks that each end could run on its assigned CPUs and no others: on the other end's
// CPUs, both would slow down.
func (t trial) affinity() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Limit: &t.limits.Moved.Invalid}
	client, server := t.Client, t.Server
	var had, found []string
	known := false
	for _, e := range t.ends() {
		had = append(had, fmt.Sprintf("the %s had CPU %s", e.name, list(e.AllowedCPUs)))
		if len(e.AllowedCPUs) == 0 || len(e.CPUs) == 0 {
			continue
		}
		known = true
		if !slices.Equal(e.AllowedCPUs, e.CPUs) {
			found = append(found, fmt.Sprintf("the %s was placed on CPU %s and could run on %s", e.name, list(e.CPUs), list(e.AllowedCPUs)))
		}
	}
	if !known {
		c.Level, c.Detail = record.Unknown, "no end reported on which CPUs it could run"
		return c
	}
	if shared := common(client.AllowedCPUs, server.AllowedCPUs); len(shared) > 0 {
		found = append(found, "both ends could run on CPU "+list(shared))
		c.Figure = t.shared()
	}
	c.Detail = strings.Join(had, ", ")
	if len(found) == 0 {
		return c
	}
	c.Level, c.Detail = record.Warning, strings.Join(found, "; ")
	asked := len(common(client.CPUs, server.CPUs)) > 0 // for example on a machine with one CPU
	if t.Cell.Kind().Unplaced {                        // wirelab could not place the service
		c.Detail += fmt.Sprintf(": unknown how much of CPU %s the service used; start it with `taskset` on other CPUs, so that the client cannot slow it down", list(client.CPUs))
		return c
	}
	if !asked && c.Figure != nil && t.limits.Moved.level(*c.Figure) == record.Invalid {
		c.Level = record.Invalid
		c.Detail += ": " + shift{"each request", *c.Figure}.words()
	}
	return c
}

// shared bounds how much two ends on the same CPUs slow each other down: each waits for the other
// at most as long as the less busy of them ran.
func (t trial) shared() *float64 {
	client, known := t.Client.CPUNS()
	server, knownToo := t.Server.CPUNS()
	if !known || !knownToo || t.WindowNS <= 0 {
		return nil
	}
	cpus := min(len(t.Client.AllowedCPUs), len(t.Server.AllowedCPUs))
	share := float64(min(client, server)) / float64(t.WindowNS) / float64(cpus)
	return new(slowed(share))
}

// slowed returns how much longer work takes if it lacks a share of the time.
func slowed(share float64) float64 {
	const most = 0.99 // a hundred times as long: limits the result
	share = min(share, most)
	return share / (1 - share)
}

// quota checks that no control group stopped an end because its CPU quota was used up.
func (t trial) quota() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "no end reported the limits of its control groups"}
	worst := shift{by: -1}
	for _, e := range t.ends() {
		if e.ThrottledNS == nil || e.ThrottledPeriods == nil {
			continue
		}
		if c.Level == record.Unknown {
			verdict(&c, record.OK, "no quota stopped an end in the window")
		}
		each := float64(*e.ThrottledNS) / float64(max(1, *e.ThrottledPeriods))
		by := t.moved(t.met(float64(*e.ThrottledPeriods), each))
		switch {
		case *e.ThrottledPeriods > 0 && by.by > worst.by:
			worst = by
			c.Figure = &worst.by
			granted := ""
			if e.QuotaCPUs != nil {
				granted = fmt.Sprintf(", %.3g CPUs,", *e.QuotaCPUs)
			}
			verdict(&c, t.limits.Moved.atLeastWarning(by.by), "the %s was stopped %d times for %s each in the mean because the CPU quota of its control groups%s was used up: %s; lift the quota",
				e.name, *e.ThrottledPeriods, units.Time(each), granted, by.words())
		case e.QuotaCPUs != nil && *e.QuotaCPUs < float64(len(e.CPUs)) && worst.by < 0:
			verdict(&c, record.Warning, "the control groups of the %s grant %.3g CPUs and it was placed on %d; it was not stopped in the window, but may be", e.name, *e.QuotaCPUs, len(e.CPUs))
		}
	}
	return c
}

// collector checks that the client's garbage collector ran no more often than by default. It uses
// the CPUs that send requests. By default its cost belongs to the client's libraries, and so to
// the trial.
func (t trial) collector() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &t.limits.Moved.Invalid, Detail: "the client did not report the setting and the CPU time of its collector"}
	cpu, known := t.Client.CPUNS()
	if !known || cpu <= 0 || t.Client.GCCPUNS == nil || t.Client.GCPercent == nil {
		return c
	}
	took, percentSet := float64(*t.Client.GCCPUNS)/float64(cpu), *t.Client.GCPercent
	if percentSet >= defaultGOGC || percentSet < 0 {
		c.Figure, c.Limit = &took, &t.limits.Collected
		verdict(&c, record.OK, "the client's garbage collector took %s of its CPU time", percent(took))
		if took > t.limits.Collected {
			c.Level = record.Warning
			c.Detail += ": the figure partly shows the client's memory"
		}
		return c
	}
	// The collector's frequency is proportional to 1/GOGC. A request spent entirely in the client
	// would be slowed down by the share beyond the default.
	by := shift{"the mean", slowed(took * (1 - float64(percentSet)/defaultGOGC))}
	c.Figure = &by.by
	verdict(&c, t.limits.Moved.atLeastWarning(by.by), "the client ran with GOGC=%d, and its garbage collector took %s of its CPU time: %s; unset GOGC",
		percentSet, percent(took), by.words())
	return c
}

// suspended checks that the machine did not sleep in the window. The clock of latencies stops
// meanwhile, so no latency shows it.
func (t trial) suspended() record.Check {
	c := record.Check{Level: record.Unknown, Unit: "ms", Detail: "the client did not report whether the machine slept"}
	if t.Host.SuspendedNS == nil {
		return c
	}
	slept := float64(*t.Host.SuspendedNS)
	c.Figure, c.Limit = new(slept/1e6), new(t.limits.SleptNS/1e6)
	verdict(&c, record.OK, "the machine was awake")
	if slept > t.limits.SleptNS {
		verdict(&c, record.Invalid, "the machine slept for %.3g s in the window, which no latency shows: the times before and after are two measurements", slept/1e9)
	}
	return c
}

func common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(cpu int) bool { return !slices.Contains(b, cpu) })
}

func list(cpus []int) string {
	if len(cpus) == 0 {
		return "(not known)"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
}

// defaultGOGC is the growth at which Go collects (package runtime).
const defaultGOGC = 100

// runtime checks that wirelab's environment does not change the measured program: nobody traces
// its workers, they have their assigned CPUs, and the server's collector has its default. The
// client's collector has its own check.
func (t trial) runtime() record.Check {
	c := record.Check{Level: record.OK, Unit: "CPUs", Detail: "both ends use their assigned CPUs"}
	if t.only != "" {
		c.Detail = "the " + t.only + "  uses its assigned CPUs"
	}
	for _, end := range slices.Backward(t.ends()) {
		if end.TracedBy > 0 {
			c = record.Check{}
			verdict(&c, record.Warning, "process %d traces the %s, as strace and debuggers do: it stops at each of its system calls; detach it", end.TracedBy, end.name)
			return c
		}
		got, want := end.GoMaxProcs, len(end.CPUs)
		if end.name == "client" && t.Cell.Load.Model != "closed" {
			want++ // one thread waits for an open loop's instants
		}
		if got == 0 || len(end.CPUs) == 0 || got == want {
			continue // unknown, or another program
		}
		c.Figure, c.Limit = new(float64(got)), new(float64(want))
		words := "the %s used %d of its %d CPUs at most: unset GOMAXPROCS"
		if got > want {
			words = "the %s ran up to %d threads on %d CPUs: unset GOMAXPROCS"
		}
		verdict(&c, record.Warning, words, end.name, got, want)
	}
	for _, s := range t.Settings {
		if t.only != "" && s.Side != t.only && s.Side != tuning.Both {
			continue // on another machine
		}
		if s.Why == tuning.FromEnvironment && s.Name != "GOGC" { // GOGC has its own check below
			c = record.Check{}
			verdict(&c, record.Warning, "%s=%s in the environment: it changes the measured program; unset it", s.Name, s.Value)
		}
	}
	asked := slices.ContainsFunc(t.Settings, func(s tuning.Setting) bool { return s.Name == "GOGC" && s.Why != tuning.FromEnvironment })
	if percent := t.Server.GCPercent; t.only != "client" && percent != nil && *percent != defaultGOGC && !asked {
		set := "off"
		if *percent >= 0 {
			set = strconv.FormatInt(*percent, 10)
		}
		c = record.Check{Unit: "percent", Figure: new(float64(*percent)), Limit: new(float64(defaultGOGC))}
		verdict(&c, record.Warning, "the server's collector runs with GOGC=%s, where %d is the default: unset GOGC", set, defaultGOGC)
	}
	return c
}
