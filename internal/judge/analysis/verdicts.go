package analysis

import (
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// A JudgedTrials holds the trials of a run, judged by this version's checks.
type JudgedTrials struct {
	Records  []*record.Record
	Rejudged *RejudgedChecks // nil if nothing differs from the stored checks

	limits check.Limits // limits that the checks used
}

// A RejudgedChecks lists the checks whose results changed since the trials were measured. It leaves out
// profiled and failed trials, because they have no figures.
type RejudgedChecks struct {
	NowInvalid int           `json:"now_invalid"` // trials that were valid when measured
	NowValid   int           `json:"now_valid"`   // trials that were invalid when measured
	Changes    []CheckChange `json:"changes"`
	Kept       []KeptCheck   `json:"kept"`
}

// A CheckChange is a check whose level differs from the stored one.
type CheckChange struct {
	Check  string       `json:"check"`
	Stored record.Level `json:"stored"` // stored level; empty if the check was not made at that time
	Level  record.Level `json:"level" jsonschema:"enum=ok,enum=warning,enum=invalid,enum=unknown"`
	// ChangesValidity is true if the change made trials invalid, or valid again.
	ChangesValidity bool   `json:"changes_validity"`
	Trials          int    `json:"trials"`
	Detail          string `json:"detail"` // reason for the worse of stored and new level, from the first such trial
}

// A KeptCheck keeps its stored level, because the record lacks a figure that this version's check
// needs, or because this version has no such check.
type KeptCheck struct {
	Check  string `json:"check"`
	Trials int    `json:"trials"`
}

// Judge judges the trials again. It does not change the given records.
func Judge(records []*record.Record, limits check.Limits) JudgedTrials {
	judged := JudgedTrials{limits: limits}
	differs := &RejudgedChecks{}
	for _, stored := range records {
		again := check.JudgeAgain(stored, limits)
		r := *stored
		r.Checks = again.Checks
		judged.Records = append(judged.Records, &r)
		if r.Probe == "" && r.Failure == "" {
			differs.compare(stored, &r)
			for _, name := range again.Kept {
				lists.FindOrAdd(&differs.Kept, KeptCheck{Check: name}, func(known KeptCheck) bool { return known.Check == name }).Trials++
			}
		}
	}
	if len(differs.Changes)+len(differs.Kept) > 0 {
		judged.Rejudged = differs
	}
	return judged
}

// compare adds the differences between a trial's checks and the stored checks. A new check only
// counts if it gives a warning or makes the trial invalid.
func (d *RejudgedChecks) compare(stored, now *record.Record) {
	was, is := stored.Valid(), now.Valid()
	switch {
	case was && !is:
		d.NowInvalid++
	case is && !was:
		d.NowValid++
	}
	for _, c := range now.Checks {
		var before record.Check
		for _, s := range stored.Checks { // several checks of older versions may be one today
			if check.CurrentName(s.Name) == c.Name && (before.Name == "" || s.Level.Severity() > before.Level.Severity()) {
				before = s
			}
		}
		quiet := c.Level == record.OK || c.Level == record.Unknown
		if c.Level == before.Level || before.Name == "" && quiet {
			continue
		}
		change := CheckChange{Check: c.Name, Stored: before.Level, Level: c.Level, Detail: c.Detail}
		change.ChangesValidity = was != is && (c.Level == record.Invalid || before.Level == record.Invalid)
		if c.Level.Severity() < before.Level.Severity() {
			change.Detail = before.Detail
		}
		lists.FindOrAdd(&d.Changes, change, func(known CheckChange) bool {
			known.Trials, known.Detail = 0, change.Detail
			return known == change
		}).Trials++
	}
}
