// Package judge checks whether a trial is valid. It is a pure function: a record and
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
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/record"
)

// checks are all rules, in the order in which they are reported.
var checks = []check{
	{name: "generator-bound", judge: trial.generatorBound, shaken: true},
	{name: "schedule", judge: trial.schedule, shaken: true},
	{name: "overload", judge: trial.overload, shaken: true},
	{name: "bookkeeping", judge: trial.bookkeeping, shaken: true, needs: "how many calls were in flight"},
	{name: "evenness", judge: trial.evenness, shaken: true, needs: "how many callers were at work"},
	{name: "connections", judge: trial.connections, needs: "which connections it opened"},
	{name: "limits", judge: trial.machineLimits},
	{name: "link", judge: trial.link, shaken: true},
	{name: "errors", judge: trial.failures},
	{name: "answers", judge: trial.answers},
	{name: "course", judge: trial.course},
	{name: "groups", judge: trial.groups},
	{name: "path", judge: trial.path},
	{name: settled, judge: trial.settled, shaken: true, needs: "when its throughput was steady"},
	{name: "affinity", judge: trial.affinity},
	{name: "cpu-quota", judge: trial.quota},
	{name: "generator-gc", judge: trial.collector},
	{name: "runtime", judge: trial.runtime},
	{name: "faults", judge: trial.faults},
	{name: "stopped", judge: trial.stopped, machine: true},
	{name: "suspended", judge: trial.suspended, machine: true},
	{name: "gaps", judge: trial.gaps, machine: true},
	{name: "paused", judge: trial.pause, machine: true},
	{name: neighbours, judge: trial.neighbours, machine: true},
	{name: "stolen-cpu", judge: trial.stolenCPU, machine: true},
	{name: "noise", judge: trial.noise, machine: true},
}

// check is one rule. Its judge returns all but the name; the detail is a
// sentence that is understood without the rest.
type check struct {
	name  string
	judge func(trial) record.Check
	// needs is what the check reads that only wirelab's own client measures.
	needs string
	// machine marks checks of what other programs did on the machine, shaken those that
	// a burst of theirs fails too, as a throughput that falls in the window.
	machine, shaken bool
}

// neighbours is the check of what other processes took, settled that of the warm-up.
const (
	neighbours = "neighbours"
	settled    = "settled"
)

// measured is the only check of a trial without a measurement.
const measured = "measured"

// trial is the record that is judged, with the limits.
type trial struct {
	*record.Record
	limits Limits
}

// Judge makes every check of a trial.
func Judge(r *record.Record, limits Limits) []record.Check {
	if r.Failure != "" {
		return []record.Check{{Name: measured, Level: record.Invalid, Detail: r.Failure}}
	}
	if r.Foreign != nil {
		return judgeForeign(trial{r, limits})
	}
	verdicts := make([]record.Check, len(checks))
	for i, c := range checks {
		if c.needs != "" && r.ClientProgram != "" {
			verdicts[i] = record.Check{Level: record.Unknown, Detail: "the client, " + r.ClientProgram + ", does not tell " + c.needs}
		} else {
			verdicts[i] = c.judge(trial{r, limits})
		}
		verdicts[i].Name = c.name
		if (c.machine || c.shaken) && verdicts[i].Level == record.Invalid && isShort(r) {
			verdicts[i].Level = record.Warning
			verdicts[i].Detail += fmt.Sprintf("; in a window of only %v that is no verdict", time.Duration(r.WindowNS).Round(time.Millisecond))
		}
	}
	return verdicts
}

// isShort reports whether a service was asked so little that nothing can be said of how it
// was asked: a user who wants ten requests made has them made.
func isShort(r *record.Record) bool { return r.Cell.IsService() && r.WindowNS < int64(time.Second) }

// Judgement is the result of judging a trial again.
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

// SpoiledByMachine reports whether a trial is invalid only because of what other
// programs did on the machine, and returns the check that says so. Where nothing else
// fails than what such programs can shake, it is enough that they are seen.
func SpoiledByMachine(verdicts []record.Check) (why record.Check, spoiled bool) {
	invalid := false
	for _, verdict := range verdicts {
		of, known := find(verdict.Name)
		fails := verdict.Level == record.Invalid
		if fails && !of.machine && !of.shaken {
			return record.Check{}, false
		}
		invalid = invalid || fails
		blames := known && of.machine && (fails || seen(verdict))
		if blames && (why.Level != record.Invalid || fails) {
			why = verdict
		}
	}
	return why, invalid && why.Name != ""
}

// OpenedTooEarly reports whether a trial is invalid only because its window opened before
// the throughput was steady, and returns the check that says so: a longer warm-up may cure it.
func OpenedTooEarly(verdicts []record.Check) (why record.Check, tooEarly bool) {
	for _, verdict := range verdicts {
		switch {
		case verdict.Level != record.Invalid:
		case verdict.Name != settled:
			return record.Check{}, false
		default:
			why = verdict
		}
	}
	return why, why.Name != ""
}

// seen reports whether a check of the machine saw something that may shake a trial. How
// long neighbours keep a thread waiting that is due now and then says little of how they
// shake a hundred that are due at once: there their share counts.
func seen(verdict record.Check) bool {
	return verdict.Level == record.Warning ||
		verdict.Name == neighbours && verdict.Figure != nil && *verdict.Figure > Default().Others.Warning
}

func find(name string) (check, bool) {
	i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	if i < 0 {
		return check{}, false
	}
	return checks[i], true
}

// renamed has the names that checks had in older records.
var renamed = map[string]string{"littles-law": "bookkeeping"}

// Name returns what a stored check is called now.
func Name(stored string) string { return cmp.Or(renamed[stored], stored) }

// verdict gives a check its level and the reason.
func verdict(c *record.Check, level record.Level, format string, args ...any) {
	c.Level, c.Detail = level, fmt.Sprintf(format, args...)
}

func percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }
