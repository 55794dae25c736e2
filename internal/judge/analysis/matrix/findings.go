package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// noResult describes a check that could not be made.
func noResult(c record.Check) string {
	return fmt.Sprintf("the check %q has no result: %s", c.Name, c.Detail)
}

// sharedRemarks returns the remarks that all trials share, which a report shows only once: warnings, and
// checks without a result.
func sharedRemarks(records []*record.Record) (shared []string) {
	measured := slices.DeleteFunc(slices.Clone(records), func(r *record.Record) bool { return r.Failure != "" })
	for i, r := range measured {
		var own []string
		for _, c := range r.Checks {
			if c.Level == record.Unknown {
				own = append(own, noResult(c))
			}
		}
		if own = append(own, r.Warnings...); i == 0 {
			shared = own
		}
		shared = slices.DeleteFunc(shared, func(text string) bool { return !slices.Contains(own, text) })
	}
	return shared
}

// warnings returns the warnings of a cell's trials, each once. It leaves out shared remarks.
func warnings(trials []Trial, shared []string) []string {
	var texts []string
	counts := map[string]int{}
	measured := Filter(trials, func(t Trial) bool { return t.Failure == "" })
	for _, t := range measured {
		for _, text := range t.Warnings {
			if !slices.Contains(shared, text) {
				texts = lists.AppendNew(texts, text)
				counts[text]++
			}
		}
	}
	for i, text := range texts {
		if n := counts[text]; n < len(measured) {
			texts[i] = fmt.Sprintf("%s (%d of %d trials)", text, n, len(measured))
		}
	}
	return texts
}

// findings returns the checks that were not ok, worst first. The detail is from the first trial
// with this result.
func findings(trials []Trial, shared []string) []Finding {
	var all []Finding
	for _, t := range Filter(trials, func(t Trial) bool { return t.Failure == "" }) {
		for _, c := range t.Checks {
			if c.Level == record.OK || slices.Contains(shared, noResult(c)) {
				continue
			}
			lists.FindOrAdd(&all, Finding{Name: c.Name, Level: c.Level, Detail: c.Detail, Spoils: spoiledText(c)}, func(f Finding) bool {
				return f.Name == c.Name && f.Level == c.Level
			}).Trials++
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Level.Severity(), a.Level.Severity()), cmp.Compare(b.Trials, a.Trials))
	})
	return all
}

// A Finding is a check that was not ok, with its number of trials.
type Finding struct {
	Name   string
	Level  record.Level
	Trials int // number of trials with this finding
	Detail string
	Spoils string // the figures that an invalid check spoils, as in "times, cpu"; empty means all figures
}

// Refused names the figures that the finding refuses, as in "times, cpu refused".
func (f Finding) Refused() string {
	return strings.TrimSpace(f.Spoils + " refused")
}

func spoiledText(c record.Check) string {
	if slices.Contains(c.Spoils, record.Counts) && slices.Contains(c.Spoils, record.Bytes) && slices.Contains(c.Spoils, record.CPUTime) {
		return "" // all figures
	}
	return strings.Join(lists.Map(c.Spoils, func(k record.FigureKind) string { return string(k) }), ", ")
}
