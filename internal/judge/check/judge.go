// Package check checks whether a trial is valid. It is a pure function: a record and
// limits go in, checks come out.
//
//		record, Limits ── Judge ──> a record.Check per rule, each with its level,
//		                            its figure, its limit and the reason in words
//
//	 1. The lab judges a trial when it ends (Judge) and stores the checks in its record.
//	 2. A command that reads the run later judges it again by its own rules (Again).
//
// A new check is a method of trial and a line in checks. If a record lacks a figure that a check
// needs, the check returns record.Unknown and names it, so that older records stay readable.
//
// This package does not know how figures were measured, and does not compare trials.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
)

// checks lists all rules, in the order of reports.
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

// A check is one rule. Its judge returns everything except the name.
type check struct {
	name  string
	judge func(trial) record.Check
	// needs names the figure that only wirelab's own client measures and that the check reads.
	needs string
	// machine marks checks of other programs on the machine. shaken marks checks that such
	// programs can also make fail, such as a throughput that falls in the window.
	machine, shaken bool
	// fleet names the parts to judge if the ends ran on machines of a fleet.
	fleet scope
	// less: the lower of two figures is worse.
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
	// only names the judged end if a fleet's ends are on separate machines; empty: both. part is
	// this end if it is one of several clients.
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
			continue // both ends have the machine's figure
		}
		made := c.of(trial{Record: r, limits: limits})
		made.Name = c.name
		if (c.machine || c.shaken) && made.Level == record.Invalid && isShort(r) {
			made.Level = record.Warning
			made.Detail += fmt.Sprintf("; a window of only %v is too short for a verdict", time.Duration(r.WindowNS).Round(time.Millisecond))
		}
		verdicts = append(verdicts, made)
	}
	return verdicts
}

// of makes the check on a trial.
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

// isShort reports whether a service got too few requests for a statement about its speed.
func isShort(r *record.Record) bool { return r.Cell.Kind().MayBeFew && r.WindowNS < int64(time.Second) }

// A Judgement is the result of judging a trial again.
type Judgement struct {
	Checks []record.Check
	// Kept names checks with their stored level: the record lacks a figure that this version's
	// check needs, or this version has no such check.
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
// machine, and returns the check with the reason. If such programs can cause every failed check,
// it is enough that a check of the machine found some.
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
		blames := of.machine && (fails || foundOthers(verdict))
		if blames && (why.Level != record.Invalid || fails) {
			why = verdict
		}
	}
	return why, invalid && why.Name != ""
}

// OpenedTooEarly reports whether a trial is invalid only because its window opened before the
// throughput was steady, and returns that check: a longer warm-up may help.
func OpenedTooEarly(verdicts []record.Check) (why record.Check, tooEarly bool) {
	invalid := slices.DeleteFunc(slices.Clone(verdicts), func(c record.Check) bool { return c.Level != record.Invalid })
	if len(invalid) != 1 || invalid[0].Name != settled {
		return record.Check{}, false
	}
	return invalid[0], true
}

// foundOthers reports whether a check of the machine found something that may spoil a trial. A gap
// of one thread that rarely runs shows little about a hundred threads that run at once. For these
// the neighbours' share of CPU time counts.
func foundOthers(verdict record.Check) bool {
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

// judgeForeign judges another program's measurement. Its file has no figure for the checks except
// the number of failed calls.
func judgeForeign(t trial) []record.Check {
	failures := t.failures()
	failures.Name = "errors"
	return []record.Check{failures, {
		Name: "limits", Level: record.Unknown,
		Detail: "the file does not show whether the load generator, the machine or the server was at a limit",
	}}
}
