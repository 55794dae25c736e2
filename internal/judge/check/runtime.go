package check

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
)

// defaultGOGC is the growth at which Go collects (package runtime).
const defaultGOGC = 100

// runtime checks that the environment of wirelab does not make its workers another
// program than that which is measured: nobody traces them, they have the CPUs that they
// were given, and the server's collector is as by default. The client's is generatorGC's.
func (t trial) runtime() record.Check {
	c := record.Check{Level: record.OK, Unit: "CPUs", Detail: "both ends use the CPUs that they were given"}
	if t.only != "" {
		c.Detail = "the " + t.only + " uses the CPUs that it was given"
	}
	for _, end := range slices.Backward(t.ends()) {
		if end.TracedBy > 0 {
			c = record.Check{}
			verdict(&c, record.Warning, "process %d traces the %s, as strace and debuggers do: it stops at each of its system calls; detach it", end.TracedBy, end.name)
			return c
		}
		got, want := end.GoMaxProcs, len(end.CPUs)
		if end.name == "client" {
			want += t.spinning()
		}
		if got == 0 || len(end.CPUs) == 0 || got == want {
			continue // not known, or another program's
		}
		c.Figure, c.Limit = new(float64(got)), new(float64(want))
		if got < want {
			verdict(&c, record.Warning, "the %s used %d of its %d CPUs at most: unset GOMAXPROCS", end.name, got, want)
		} else {
			verdict(&c, record.Warning, "the %s ran up to %d threads on %d CPUs: unset GOMAXPROCS", end.name, got, want)
		}
	}
	for _, s := range t.Settings {
		if t.only != "" && s.Side != t.only && s.Side != tuning.Both {
			continue // another machine's
		}
		if s.Why == tuning.FromEnvironment && s.Name != "GOGC" { // which the figures tell
			c = record.Check{}
			verdict(&c, record.Warning, "%s=%s in the environment: what it changes is measured, too; unset it", s.Name, s.Value)
		}
	}
	asked := slices.ContainsFunc(t.Settings, func(s tuning.Setting) bool { return s.Name == "GOGC" && s.Why != tuning.FromEnvironment })
	if percent := t.Server.GCPercent; t.only != "client" && percent != nil && *percent != defaultGOGC && !asked {
		c = record.Check{Unit: "percent", Figure: new(float64(*percent)), Limit: new(float64(defaultGOGC))}
		verdict(&c, record.Warning, "the server's collector runs with %s, where %d is the default: unset GOGC", gogc(*percent), defaultGOGC)
	}
	return c
}

func gogc(percent int64) string {
	if percent < 0 {
		return "GOGC=off"
	}
	return fmt.Sprintf("GOGC=%d", percent)
}

// spinning returns how many threads a client has besides those for its CPUs: in an open loop
// one waits for instants.
func (t trial) spinning() int {
	if t.Cell.Load.Model == "closed" {
		return 0
	}
	return 1
}
