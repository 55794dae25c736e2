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

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// Kinds of figures that checks spoil.
var (
	onlyTimes       = []record.FigureKind{record.Times}
	timesAndCPU     = []record.FigureKind{record.Times, record.CPUTime}
	timesAndTraffic = []record.FigureKind{record.Times, record.Counts, record.Bytes}
	// allButBytes is for a process that was not yet in its usual state: its memory was still growing.
	allButBytes = []record.FigureKind{record.Times, record.CPUTime, record.Counts}
	everything  = []record.FigureKind{record.Times, record.CPUTime, record.Counts, record.Bytes}
)

// checks lists all rules, in the order of reports. spoils names what a rule spoils if it makes a
// trial invalid. Other programs spoil times alone: they make the CPU time of a call scatter, and
// leave everything that is counted as it is.
var checks = []check{
	{name: "generator-bound", spoils: onlyTimes, judge: trial.checkGeneratorBound, shaken: true, fleet: scopeClients},
	{name: "schedule", spoils: onlyTimes, judge: trial.checkSchedule, shaken: true, fleet: scopeClients},
	{name: "overload", spoils: onlyTimes, judge: trial.checkOverload, shaken: true},
	{name: "bookkeeping", spoils: everything, judge: trial.checkBookkeeping, shaken: true, needs: "how many calls were in flight", fleet: scopeTrialAndClients},
	{name: "evenness", spoils: onlyTimes, judge: trial.checkEvenness, shaken: true, needs: "how many callers were at work", fleet: scopeTrialAndClients, less: true},
	{name: "connections", spoils: everything, judge: trial.checkConnections, needs: "which connections it opened", fleet: scopeClients, less: true},
	{name: "single-connections", judge: trial.checkSingleConnections},
	{name: "streams", judge: trial.checkStreams},
	{name: "limits", spoils: everything, judge: trial.checkMachineLimits, fleet: scopeTrialAndClients},
	{name: "link", spoils: timesAndTraffic, judge: trial.checkLink, shaken: true},
	{name: "errors", spoils: timesAndCPU, judge: trial.checkFailures},
	{name: "answers", spoils: timesAndCPU, judge: trial.checkAnswerTimes},
	{name: "sizes", judge: trial.checkAnswerSizes},
	{name: "course", spoils: onlyTimes, judge: trial.checkCourse},
	{name: "groups", spoils: onlyTimes, judge: trial.checkCallGroups},
	{name: "path", spoils: onlyTimes, judge: trial.checkPath},
	{name: "settled", spoils: allButBytes, judge: trial.checkSettled, shaken: true, needs: "when its throughput was steady"},
	{name: "affinity", spoils: onlyTimes, judge: trial.checkAffinity, fleet: scopeEnds},
	{name: "cpu-quota", spoils: onlyTimes, judge: trial.checkQuota, fleet: scopeEnds},
	{name: "generator-gc", spoils: timesAndCPU, judge: trial.checkCollector, fleet: scopeClients},
	{name: "runtime", spoils: timesAndCPU, judge: trial.checkRuntime, fleet: scopeEnds},
	{name: "faults", spoils: onlyTimes, judge: trial.checkPageFaults, fleet: scopeEnds},
	{name: "stopped", spoils: onlyTimes, judge: trial.checkStopped, machine: true, fleet: scopeEnds},
	{name: "suspended", spoils: onlyTimes, judge: trial.checkSuspended, machine: true, fleet: scopeEnds},
	{name: "gaps", spoils: onlyTimes, judge: trial.checkGaps, machine: true, fleet: scopeEnds},
	{name: neighboursCheck, spoils: onlyTimes, judge: trial.checkNeighbours, machine: true, fleet: scopeEnds},
	{name: clocksCheck, spoils: onlyTimes, judge: trial.checkClocks, shaken: true},
}

// A check is one rule. Its judge function sets every field of the result except the name.
type check struct {
	name   string
	spoils []record.FigureKind
	judge  func(trial) record.Check
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
	// decoded holds the histograms that the checks have read. It may be nil.
	decoded map[*latency.Distribution]decodedTimes
}

type decodedTimes struct {
	histogram *latency.Histogram
	err       error
}

// decode returns the histogram of times of the record.
func (t trial) decode(of *latency.Distribution) (*latency.Histogram, error) {
	one, done := t.decoded[of]
	if !done {
		one.histogram, one.err = of.Decode()
		if t.decoded != nil {
			t.decoded[of] = one
		}
	}
	return one.histogram, one.err
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
	t := trial{Record: r, limits: limits, decoded: map[*latency.Distribution]decodedTimes{}}
	for _, c := range checks {
		if c.name == clocksCheck && r.Fleet == nil {
			continue // both ends use one machine's clock
		}
		made := c.judgeTrial(t)
		made.Name = c.name
		if made.Level == record.Invalid {
			made.Spoils = c.spoils
			if c.machine && r.Block != 0 { // other programs disturbed all trials of the block alike
				made.Spoils = []record.FigureKind{record.AbsoluteTimes}
			}
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
		case j.Checks[i].Level == record.Unknown && stored.Level != record.Unknown && stored.Name == j.Checks[i].Name:
			j.Checks[i] = stored
			if stored.Level == record.Invalid {
				j.Checks[i].Spoils = SpoilsOf(stored.Name)
			}
		default:
			continue
		}
		j.Kept = append(j.Kept, stored.Name)
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

// SpoilsOf returns what a check of this version spoils, or nil for an unknown check.
func SpoilsOf(name string) []record.FigureKind {
	i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return checks[i].spoils
}

// renamedChecks maps the names of checks in older records to the checks that look for the same today.
var renamedChecks = map[string]string{"littles-law": "bookkeeping", "paused": "gaps", "stolen-cpu": neighboursCheck, "noise": neighboursCheck}

// CurrentName returns the name of today's check that looks for the same as a stored check.
func CurrentName(stored string) string { return cmp.Or(renamedChecks[stored], stored) }

func setVerdict(c *record.Check, level record.Level, format string, args ...any) {
	c.Level, c.Detail = level, fmt.Sprintf(format, args...)
}

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
