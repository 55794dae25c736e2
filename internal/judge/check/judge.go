// Package check checks whether a trial is valid. It is a pure function: a record and
// limits go in, checks come out.
//
//		record, Limits ── Judge ──> a record.Check a rule, each with its level,
//		                            its figure, its limit and the reason in words
//
//	 1. The lab judges a trial when it ends (Judge) and stores the checks in its record.
//	 2. A command that reads the run later judges it again by its own rules (Again).
//
// A new check is a method of trial and a line in checks. Where a record lacks what a
// check needs, the check returns record.Unknown and says what is missing, so that the
// records of older versions stay readable.
//
// This package must not know how anything was measured, nor compare trials.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
)

// checks lists all rules, in the order in which they are reported.
var checks = []check{
	{name: "generator-bound", judge: trial.generatorBound, shaken: true, fleet: ofClients},
	{name: "schedule", judge: trial.schedule, shaken: true, fleet: ofClients},
	{name: "overload", judge: trial.overload, shaken: true},
	{name: "bookkeeping", judge: trial.bookkeeping, shaken: true, needs: "how many calls were in flight", fleet: ofTrialAndClients},
	{name: "evenness", judge: trial.evenness, shaken: true, needs: "how many callers were at work", fleet: ofTrialAndClients, less: true},
	{name: "connections", judge: trial.connections, needs: "which connections it opened", fleet: ofClients, less: true},
	{name: "limits", judge: trial.machineLimits, fleet: ofTrialAndClients},
	{name: "link", judge: trial.link, shaken: true},
	{name: "errors", judge: trial.failures},
	{name: "answers", judge: trial.answers},
	{name: "course", judge: trial.course},
	{name: "groups", judge: trial.groups},
	{name: "path", judge: trial.path},
	{name: settled, judge: trial.settled, shaken: true, needs: "when its throughput was steady"},
	{name: "affinity", judge: trial.affinity, fleet: ofEnds},
	{name: "cpu-quota", judge: trial.quota, fleet: ofEnds},
	{name: "generator-gc", judge: trial.collector, fleet: ofClients},
	{name: "runtime", judge: trial.runtime, fleet: ofEnds},
	{name: "faults", judge: trial.faults, fleet: ofEnds},
	{name: "stopped", judge: trial.stopped, machine: true, fleet: ofEnds},
	{name: "suspended", judge: trial.suspended, machine: true, fleet: ofEnds},
	{name: "gaps", judge: trial.gaps, machine: true, fleet: ofEnds},
	{name: "paused", judge: trial.pause, machine: true, fleet: ofEnds},
	{name: neighbours, judge: trial.neighbours, machine: true, fleet: ofEnds},
	{name: "stolen-cpu", judge: trial.stolenCPU, machine: true, fleet: ofEnds},
	{name: "noise", judge: trial.noise, machine: true, fleet: ofEnds},
	{name: clock, judge: trial.clocks, shaken: true},
}

// A check is one rule. Its judge returns everything but the name.
type check struct {
	name  string
	judge func(trial) record.Check
	// needs names the figure that only wirelab's own client measures and that the check reads.
	needs string
	// machine marks checks of what other programs did on the machine, shaken those that
	// a burst of theirs fails too, as a throughput that falls in the window.
	machine, shaken bool
	// fleet says which parts the check looks at if the ends ran on machines of a fleet.
	fleet scope
	// less: of two figures the lower is the worse.
	less bool
}

const (
	neighbours = "neighbours" // other processes' CPU time
	settled    = "settled"    // the warm-up
	clock      = "clock"      // whether the machines of a fleet agree on the time
)

// A trial is the judged record, with the limits.
type trial struct {
	*record.Record
	limits Limits
	// only is the end that is judged, where a fleet's ends are on machines of their own; empty:
	// both. part is that end, if it is one of several clients.
	only string
	part *record.FleetClient
}

// Judge makes every check of a trial.
func Judge(r *record.Record, limits Limits) []record.Check {
	if r.Failure != "" {
		return []record.Check{{Name: "measured", Level: record.Invalid, Detail: r.Failure}}
	}
	if r.Foreign != nil {
		return judgeForeign(trial{Record: r, limits: limits})
	}
	var verdicts []record.Check
	for _, c := range checks {
		if c.name == clock && r.Fleet == nil {
			continue // both ends have this machine's
		}
		made := c.of(trial{Record: r, limits: limits})
		made.Name = c.name
		if (c.machine || c.shaken) && made.Level == record.Invalid && isShort(r) {
			made.Level = record.Warning
			made.Detail += fmt.Sprintf("; in a window of only %v that is no verdict", time.Duration(r.WindowNS).Round(time.Millisecond))
		}
		verdicts = append(verdicts, made)
	}
	return verdicts
}

// of makes the check of a trial.
func (c check) of(t trial) record.Check {
	switch {
	case c.needs != "" && t.ClientProgram != "":
		return record.Check{Level: record.Unknown, Detail: "the client, " + t.ClientProgram + ", does not report " + c.needs}
	case t.Fleet != nil:
		return c.ofFleet(t)
	default:
		return c.judge(t)
	}
}

// isShort reports whether so little was asked of a service that nothing can be said of how.
func isShort(r *record.Record) bool { return r.Cell.Kind().MayBeFew && r.WindowNS < int64(time.Second) }

// A Judgement is the result of judging a trial again.
type Judgement struct {
	Checks []record.Check
	// Kept names those that stand as they were stored: the record lacks what
	// this version's check reads, or this version has no such check.
	Kept []string
}

// Again judges a trial whose record holds the checks of an earlier judge.
func Again(r *record.Record, limits Limits) Judgement {
	j := Judgement{Checks: Judge(r, limits)}
	if r.Failure != "" {
		return j
	}
	for _, stored := range r.Checks {
		i := slices.IndexFunc(j.Checks, func(c record.Check) bool { return c.Name == Name(stored.Name) })
		switch {
		case i < 0:
			j.Checks = append(j.Checks, stored)
		case j.Checks[i].Level == record.Unknown && stored.Level != record.Unknown:
			j.Checks[i] = stored
			j.Checks[i].Name = Name(stored.Name)
		default:
			continue
		}
		j.Kept = append(j.Kept, Name(stored.Name))
	}
	return j
}

// SpoiledByMachine reports whether a trial is invalid only because of other programs on the
// machine, and returns the check that says so. If every failed check can be caused by such
// programs, it is enough that they were seen.
func SpoiledByMachine(verdicts []record.Check) (why record.Check, spoiled bool) {
	invalid := false
	for _, verdict := range verdicts {
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == verdict.Name })
		of := check{}
		if i >= 0 {
			of = checks[i]
		}
		fails := verdict.Level == record.Invalid
		if fails && !of.machine && !of.shaken {
			return record.Check{}, false
		}
		invalid = invalid || fails
		blames := of.machine && (fails || seen(verdict))
		if blames && (why.Level != record.Invalid || fails) {
			why = verdict
		}
	}
	return why, invalid && why.Name != ""
}

// OpenedTooEarly reports whether a trial is invalid only because its window opened before
// the throughput was steady, and returns the check that says so: a longer warm-up may cure it.
func OpenedTooEarly(verdicts []record.Check) (why record.Check, tooEarly bool) {
	invalid := slices.DeleteFunc(slices.Clone(verdicts), func(c record.Check) bool { return c.Level != record.Invalid })
	if len(invalid) != 1 || invalid[0].Name != settled {
		return record.Check{}, false
	}
	return invalid[0], true
}

// seen reports whether a check of the machine saw something that may shake a trial. How
// long neighbours keep a thread waiting that is due now and then says little of how they
// shake a hundred that are due at once: there their share counts.
func seen(verdict record.Check) bool {
	return verdict.Level == record.Warning ||
		verdict.Name == neighbours && verdict.Figure != nil && *verdict.Figure > Default().Others.Warning
}

// renamed maps the names of checks in older records to today's names.
var renamed = map[string]string{"littles-law": "bookkeeping"}

// Name returns today's name of a stored check.
func Name(stored string) string { return cmp.Or(renamed[stored], stored) }

// verdict gives a check its level and the reason.
func verdict(c *record.Check, level record.Level, format string, args ...any) {
	c.Level, c.Detail = level, fmt.Sprintf(format, args...)
}

func percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

// judgeForeign judges a measurement of another program, whose file has nothing else that
// checks read than the number of failed calls.
func judgeForeign(t trial) []record.Check {
	failures := t.failures()
	failures.Name = "errors"
	return []record.Check{failures, {
		Name: "limits", Level: record.Unknown,
		Detail: "nothing in the file shows whether the load generator, the machine or the server was at a limit",
	}}
}
