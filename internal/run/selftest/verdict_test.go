package selftest

import (
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// measured is a record of 1,000 calls that took so long, with those checks.
func measured(t *testing.T, took time.Duration, checks ...record.Check) *record.Record {
	t.Helper()
	r := latency.NewRecorder()
	defer r.Close()
	for range 1000 {
		r.Record(int64(took))
	}
	service, err := latency.NewHistogram(r).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	whole := &record.Record{WindowNS: int64(time.Second), Checks: checks}
	whole.Completed, whole.Requests, whole.Service = 1000, 1000, service
	return whole
}

func TestVerdicts(t *testing.T) {
	says := func(name string, level record.Level) record.Check { return record.Check{Name: name, Level: level} }
	for name, c := range map[string]struct {
		told, honest *record.Record
		want         Class
		by           string
		refused      bool
	}{
		"noticed":          {measured(t, 1000, says("x", record.Invalid)), measured(t, 1000), Noticed, "x", false},
		"by a warning":     {measured(t, 1000, says("x", record.Warning)), measured(t, 1000), Noticed, "x", false},
		"by more":          {measured(t, 1000, says("x", record.Invalid)), measured(t, 1000, says("x", record.Warning)), Noticed, "x", false},
		"twin too":         {measured(t, 1000, says("x", record.Invalid)), measured(t, 1000, says("x", record.Invalid)), Unclear, "x", true},
		"another of both":  {measured(t, 1000, says("x", record.Warning), says("y", record.Warning)), measured(t, 1000, says("x", record.Warning)), Noticed, "y", false},
		"the refusing one": {measured(t, 1000, says("x", record.Warning), says("y", record.Invalid)), measured(t, 1000), Noticed, "y", false},
		"another's":        {measured(t, 5000, says("z", record.Invalid)), measured(t, 1000), Undetected, "", false},
		"unknown":          {measured(t, 5000, says("x", record.Unknown)), measured(t, 1000), Undetected, "", false},
		"harmless":         {measured(t, 1100), measured(t, 1000), Harmless, "", false},
		"faster":           {measured(t, 100), measured(t, 1000), Undetected, "", false},
		"failed":           {&record.Record{Failure: "gone", Checks: []record.Check{says("measured", record.Invalid)}}, measured(t, 1000), Undetected, "", false},
		"refused":          {measured(t, 1100), measured(t, 1000, says("z", record.Invalid)), Harmless, "", true},
	} {
		v := Verdict{Situation: Situation{Expect: []string{"x", "y"}}}
		v.classify(c.told, c.honest)
		by := ""
		if v.By != nil {
			by = v.By.Name
		}
		if v.Class != c.want || by != c.by || (v.Refused != nil) != c.refused {
			t.Errorf("%s: %s by %q, refused %v; want %s by %q, %v", name, v.Class, by, v.Refused, c.want, c.by, c.refused)
		}
	}
}

// A warning of the record is named by its beginning.
func TestAWarningOfTheRecordNotices(t *testing.T) {
	told := measured(t, 1000)
	told.Warnings = []string{"the cost is unknown: no readings at 127.0.0.1:80"}
	v := Verdict{Situation: Situation{Expect: []string{"the cost is unknown"}}}
	v.classify(told, measured(t, 1000))
	if v.Class != Noticed || v.By.Detail != told.Warnings[0] {
		t.Errorf("%+v", v)
	}
}
