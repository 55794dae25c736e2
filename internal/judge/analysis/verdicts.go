package analysis

import (
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/check"
)

// A Judged holds the trials of a run with this version's checks.
type Judged struct {
	Records  []*record.Record
	Rejudged *Rejudged // nil if nothing differs from the stored checks

	limits check.Limits // limits of the checks
}

// A Rejudged lists trials whose judgement has changed since they were measured. Profiled or failed
// trials are left out: they have no figure.
type Rejudged struct {
	NowInvalid int           `json:"now_invalid"` // trials that were valid when measured
	NowValid   int           `json:"now_valid"`   // trials that were invalid when measured
	Changes    []CheckChange `json:"changes"`
	Kept       []KeptCheck   `json:"kept"`
}

// A CheckChange is a check whose level differs from the stored one.
type CheckChange struct {
	Check  string       `json:"check"`
	Stored record.Level `json:"stored"` // ok, warning, invalid or unknown; empty if the check was not made
	Level  record.Level `json:"level" jsonschema:"enum=ok,enum=warning,enum=invalid,enum=unknown"`
	// ChangesValidity reports whether these trials became invalid, or valid again. Otherwise their
	// validity comes from other checks, or did not change.
	ChangesValidity bool   `json:"changes_validity"`
	Trials          int    `json:"trials"`
	Detail          string `json:"detail"` // reason of the worse level, from the first of the trials
}

// A KeptCheck keeps its stored level, because the record lacks a figure that this version's check
// needs, or because this version has no such check.
type KeptCheck struct {
	Check  string `json:"check"`
	Trials int    `json:"trials"`
}

// Judge judges the trials again. It does not change the given records.
func Judge(records []*record.Record, limits check.Limits) Judged {
	judged := Judged{limits: limits}
	differs := &Rejudged{}
	for _, stored := range records {
		again := check.Again(stored, limits)
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

// compare notes the differences between a trial's checks and the stored ones. A new check without
// a finding is no difference.
func (d *Rejudged) compare(stored, now *record.Record) {
	was, is := stored.Valid(), now.Valid()
	switch {
	case was && !is:
		d.NowInvalid++
	case is && !was:
		d.NowValid++
	}
	for _, c := range now.Checks {
		var before record.Check
		if i := slices.IndexFunc(stored.Checks, func(s record.Check) bool { return check.Name(s.Name) == c.Name }); i >= 0 {
			before = stored.Checks[i]
		}
		quiet := c.Level == record.OK || c.Level == record.Unknown
		if c.Level == before.Level || before.Name == "" && quiet {
			continue
		}
		change := CheckChange{Check: c.Name, Stored: before.Level, Level: c.Level, Detail: c.Detail}
		change.ChangesValidity = was != is && (c.Level == record.Invalid || before.Level == record.Invalid)
		if matrix.Severity(c.Level) < matrix.Severity(before.Level) {
			change.Detail = before.Detail
		}
		lists.FindOrAdd(&d.Changes, change, func(known CheckChange) bool {
			known.Trials, known.Detail = 0, change.Detail
			return known == change
		}).Trials++
	}
}

// Again counts measurements that were discarded and repeated because other programs had spoiled
// them.
type Again struct {
	Trials     int // trials that were repeated
	ThrownAway int // discarded measurements of these trials
	Spoiled    int // trials that remain invalid only because of other programs
}

// secondTime began a warning of older versions, which measured a trial at most twice.
const secondTime = "measured a second time"

func (a *Again) count(r *record.Record) {
	thrownAway := len(r.Attempts)
	for _, warning := range r.Warnings {
		if strings.HasPrefix(warning, secondTime) {
			thrownAway++
		}
	}
	if a.ThrownAway += thrownAway; thrownAway > 0 {
		a.Trials++
	}
	if matrix.SpoiledByMachine(r) {
		a.Spoiled++
	}
}
