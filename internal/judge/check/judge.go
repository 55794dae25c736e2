// Package check checks whether a trial is valid. It is pure: from a record and limits it computes
// checks.
//
//		record, Limits ── Judge ──> a record.Check per rule, each with its level,
//		                            its figure, its limit and the reason in words
//
//	 1. The lab judges a trial when it ends (Judge) and stores the checks in its record.
//	 2. A command that reads the run later judges it by its own rules (JudgeAgain).
//
// To add a check, write a method of trial and add a line to checks. If a record lacks a figure, as
// older records do, a check returns record.Unknown and names the figure.
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
	{name: "generator-bound", judge: trial.checkGeneratorBound, shaken: true, fleet: scopeClients},
	{name: "schedule", judge: trial.checkSchedule, shaken: true, fleet: scopeClients},
	{name: "overload", judge: trial.checkOverload, shaken: true},
	{name: "bookkeeping", judge: trial.checkBookkeeping, shaken: true, needs: "how many calls were in flight", fleet: scopeTrialAndClients},
	{name: "evenness", judge: trial.checkEvenness, shaken: true, needs: "how many callers were at work", fleet: scopeTrialAndClients, less: true},
	{name: "connections", judge: trial.checkConnections, needs: "which connections it opened", fleet: scopeClients, less: true},
	{name: "single-connections", judge: trial.checkSingleConnections},
	{name: "limits", judge: trial.checkMachineLimits, fleet: scopeTrialAndClients},
	{name: "link", judge: trial.checkLink, shaken: true},
	{name: "errors", judge: trial.checkFailures},
	{name: "answers", judge: trial.checkAnswerTimes},
	{name: "sizes", judge: trial.checkAnswerSizes},
	{name: "course", judge: trial.checkCourse},
	{name: "groups", judge: trial.checkCallGroups},
	{name: "path", judge: trial.checkPath},
	{name: "settled", judge: trial.checkSettled, shaken: true, needs: "when its throughput was steady"},
	{name: "affinity", judge: trial.checkAffinity, fleet: scopeEnds},
	{name: "cpu-quota", judge: trial.checkQuota, fleet: scopeEnds},
	{name: "generator-gc", judge: trial.checkCollector, fleet: scopeClients},
	{name: "runtime", judge: trial.checkRuntime, fleet: scopeEnds},
	{name: "faults", judge: trial.checkPageFaults, fleet: scopeEnds},
	{name: "stopped", judge: trial.checkStopped, machine: true, fleet: scopeEnds},
	{name: "suspended", judge: trial.checkSuspended, machine: true, fleet: scopeEnds},
	{name: "gaps", judge: trial.checkGaps, machine: true, fleet: scopeEnds},
	{name: "paused", judge: trial.checkPause, machine: true, fleet: scopeEnds},
	{name: neighboursCheck, judge: trial.checkNeighbours, machine: true, fleet: scopeEnds},
	{name: "stolen-cpu", judge: trial.checkStolenCPU, machine: true, fleet: scopeEnds},
	{name: "noise", judge: trial.checkNoise, machine: true, fleet: scopeEnds},
	{name: clocksCheck, judge: trial.checkClocks, shaken: true},
}

// A check is one rule. Its judge function sets every field of the result except the name.
type check struct {
	name  string
	judge func(trial) record.Check
	// needs names a figure that the check reads and that only wirelab's own client measures.
	needs string
	// machine marks checks that look for other programs on the machine. shaken marks checks that fail
	// if other programs disturb the trial, for example by lowering its throughput.
	machine, shaken bool
	// fleet names the parts of a trial that the check judges in a fleet.
	fleet scope
	// less is true if a lower figure is worse.
	less bool
}

const (
	neighboursCheck = "neighbours" // checks other processes' CPU time
	clocksCheck     = "clock"      // checks whether a fleet's machines agree on the time
)

// A trial holds the record that is judged, and the limits.
type trial struct {
	*record.Record
	limits Limits
	// only names the judged end, "client" or "server"; empty means both ends. part is the judged
	// client of a fleet; nil means all clients.
	only string
	part *record.FleetClient
}

// Judge makes all checks on a trial.
func Judge(r *record.Record, limits Limits) []record.Check {
	if r.Failure != "" {
		return []record.Check{{Name: "measured", Level: record.Invalid, Detail: r.Failure}}
	}
	if r.Foreign != nil {
		return judgeForeign(trial{Record: r, limits: limits})
	}
	var verdicts []record.Check
	for _, c := range checks {
		if c.name == clocksCheck && r.Fleet == nil {
			continue // both ends use one machine's clock
		}
		made := c.judgeTrial(trial{Record: r, limits: limits})
		made.Name = c.name
		if (c.machine || c.shaken) && made.Level == record.Invalid && hasShortWindow(r) {
			made.Level = record.Warning
			made.Detail += fmt.Sprintf("; a window of %v is too short for a verdict: measure longer", time.Duration(r.WindowNS).Round(time.Millisecond))
		}
		if c.machine && made.Level == record.Invalid && r.Block != 0 {
			made.Level = record.Warning
			made.Detail += "; other programs disturbed all trials of the block alike"
		}
		verdicts = append(verdicts, made)
	}
	return verdicts
}

func (c check) judgeTrial(t trial) record.Check {
	switch {
	case c.needs != "" && t.ClientProgram != "":
		return record.Check{Level: record.Unknown, Detail: "the client, " + t.ClientProgram + ", does not report " + c.needs}
	case t.Fleet != nil:
		return c.judgeFleet(t)
	default:
		return c.judge(t)
	}
}

// hasShortWindow reports whether a service's window is too short to judge the speed of the service.
func hasShortWindow(r *record.Record) bool {
	return r.Cell.Kind().MayBeFew && r.WindowNS < int64(time.Second)
}

// A Judgement is the result of judging a trial again.
type Judgement struct {
	Checks []record.Check
	// Kept names the checks that keep their stored level, because the record lacks a figure that
	// this version needs, or because this version has no such check.
	Kept []string
}

// JudgeAgain judges a recorded trial by this version's rules.
func JudgeAgain(r *record.Record, limits Limits) Judgement {
	j := Judgement{Checks: Judge(r, limits)}
	if r.Failure != "" {
		return j
	}
	for _, stored := range r.Checks {
		i := slices.IndexFunc(j.Checks, func(c record.Check) bool { return c.Name == CurrentName(stored.Name) })
		switch {
		case i < 0:
			j.Checks = append(j.Checks, stored)
		case j.Checks[i].Level == record.Unknown && stored.Level != record.Unknown:
			j.Checks[i] = stored
			j.Checks[i].Name = CurrentName(stored.Name)
		default:
			continue
		}
		j.Kept = append(j.Kept, CurrentName(stored.Name))
	}
	return j
}

// SpoiledByMachine reports whether a trial is invalid only because of other programs on the
// machine, and returns the check with the reason. Such programs must be a possible cause of every
// failed check, and a check of the machine must have found them.
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
		blames := of.machine && (fails || foundOtherPrograms(verdict))
		if blames && (why.Level != record.Invalid || fails) {
			why = verdict
		}
	}
	return why, invalid && why.Name != ""
}

// foundOtherPrograms reports whether a check found other programs that may spoil a trial. It also
// uses the CPU time of other processes, because the gaps of one rarely running thread show little
// about a hundred threads that run at once.
func foundOtherPrograms(verdict record.Check) bool {
	return verdict.Level == record.Warning ||
		verdict.Name == neighboursCheck && verdict.Figure != nil && *verdict.Figure > DefaultLimits().Others.Warning
}

// renamedChecks maps the names of checks in older records to today's names.
var renamedChecks = map[string]string{"littles-law": "bookkeeping"}

// CurrentName returns today's name of a stored check.
func CurrentName(stored string) string { return cmp.Or(renamedChecks[stored], stored) }

func setVerdict(c *record.Check, level record.Level, format string, args ...any) {
	c.Level, c.Detail = level, fmt.Sprintf(format, args...)
}

func percentText(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

// judgeForeign judges another program's measurement. Such a program's file has one figure for
// checks, the number of failed calls.
func judgeForeign(t trial) []record.Check {
	failures := t.checkFailures()
	failures.Name = "errors"
	return []record.Check{failures, {
		Name: "limits", Level: record.Unknown,
		Detail: "the other program's file does not show whether the load generator, the machine or the server reached a limit",
	}}
}
