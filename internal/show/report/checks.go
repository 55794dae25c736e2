package report

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
)

// JudgedCheck is a check of a cell's trials, at its worst.
type JudgedCheck struct {
	Name   string       `json:"name"`
	Level  record.Level `json:"level"`
	Trials int          `json:"trials"` // in which it came out so
	Detail string       `json:"detail"` // of the first of them
}

// levels are those of a check, worst first.
var levels = []record.Level{record.Invalid, record.Warning, record.Unknown, record.OK}

// verdictsOf are the checks of a cell's trials, worst first.
func verdictsOf(cell record.Cell, records []*record.Record) []JudgedCheck {
	var all []JudgedCheck
	for _, r := range records {
		if r.Cell != cell {
			continue
		}
		for _, check := range r.Checks {
			i := slices.IndexFunc(all, func(v JudgedCheck) bool { return v.Name == check.Name })
			if i < 0 {
				i = len(all)
				all = append(all, JudgedCheck{Name: check.Name, Level: record.OK})
			}
			switch v := &all[i]; {
			case v.Trials == 0 || slices.Index(levels, check.Level) < slices.Index(levels, v.Level):
				v.Level, v.Trials, v.Detail = check.Level, 1, check.Detail
			case check.Level == v.Level:
				v.Trials++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b JudgedCheck) int {
		return cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level))
	})
	return all
}
