package analysis

import (
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/check"
)

// A Judged holds the trials of a run with the checks of this version.
type Judged struct {
	Records  []*record.Record
	Rejudged *Rejudged // nil if nothing differs from the stored checks

	limits check.Limits // that they were judged by
}

// A Rejudged holds the trials that are judged otherwise than when they were measured. Trials
// that were profiled or that failed are left out: they have no figure.
type Rejudged struct {
	NowInvalid int           `json:"now_invalid"` // trials that were valid when measured
	NowValid   int           `json:"now_valid"`   // trials that were invalid when measured
	Changes    []CheckChange `json:"changes"`
	Kept       []KeptCheck   `json:"kept"`
}

// A CheckChange is a check that now comes to another level than the stored one.
type CheckChange struct {
	Check  string       `json:"check"`
	Stored record.Level `json:"stored"` // ok, warning, invalid or unknown; empty if the check was not made
	Level  record.Level `json:"level" jsonschema:"enum=ok,enum=warning,enum=invalid,enum=unknown"`
	// ChangesValidity reports whether these trials became invalid, or valid again.
	// Others are so for other checks, or were not invalid at all.
	ChangesValidity bool   `json:"changes_validity"`
	Trials          int    `json:"trials"`
	Detail          string `json:"detail"` // the worse level's reason, in the first of the trials
}

// A KeptCheck keeps its stored level, because the record lacks what this version's check
// reads, or because there is no such check any more.
type KeptCheck struct {
	Check  string `json:"check"`
	Trials int    `json:"trials"`
}

// Judge judges the trials again. The given records keep their stored checks.
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

// compare notes where the checks of a trial differ from the stored ones. A
// check that was not made then, and has nothing to say now, is no difference.
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

// Again counts the measurements that were thrown away and repeated because other programs had
// spoiled them.
type Again struct {
	Trials     int // of those that have a record
	ThrownAway int // measurements of them
	Spoiled    int // trials that other programs spoiled to the end, and that nothing else is wrong with
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
