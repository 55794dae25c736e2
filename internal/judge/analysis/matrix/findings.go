package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// remarks holds notes about trials, in the order of their first appearance. A report shows a note
// only once if all trials share it.
type remarks []remark

type remark struct {
	check string // the name of a check without a result, or empty
	text  string
}

func (r remarks) texts() []string {
	texts := make([]string, len(r))
	for i, one := range r {
		texts[i] = one.text
		if one.check != "" {
			texts[i] = fmt.Sprintf("the check %q has no result: %s", one.check, one.text)
		}
	}
	return texts
}

// remarksOf returns a trial's warnings, and its checks without a result.
func remarksOf(r *record.Record) remarks {
	var all remarks
	for _, c := range r.Checks {
		if c.Level == record.Unknown {
			all = append(all, remark{c.Name, c.Detail})
		}
	}
	for _, w := range r.Warnings {
		all = append(all, remark{text: w})
	}
	return all
}

func sharedRemarks(records []*record.Record) remarks {
	var shared remarks
	measured := slices.DeleteFunc(slices.Clone(records), func(r *record.Record) bool { return r.Failure != "" })
	for i, r := range measured {
		own := remarksOf(r)
		if i == 0 {
			shared = own
			continue
		}
		shared = slices.DeleteFunc(shared, func(one remark) bool { return !slices.Contains(own, one) })
	}
	return shared
}

// warnings returns the warnings of a cell's trials, each once. It leaves out shared remarks.
func warnings(trials []Trial, shared remarks) []string {
	var texts []string
	counts := map[string]int{}
	measured := Filter(trials, func(t Trial) bool { return t.Failure == "" })
	for _, t := range measured {
		for _, text := range t.Warnings {
			if !slices.Contains(shared, remark{text: text}) {
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
func findings(trials []Trial, shared remarks) []Finding {
	var all []Finding
	for _, t := range Filter(trials, func(t Trial) bool { return t.Failure == "" }) {
		for _, c := range t.Checks {
			if c.Level == record.OK || slices.Contains(shared, remark{c.Name, c.Detail}) {
				continue
			}
			lists.FindOrAdd(&all, Finding{Name: c.Name, Level: c.Level, Detail: c.Detail, Spoils: spoiledText(c)}, func(f Finding) bool {
				return f.Name == c.Name && f.Level == c.Level
			}).Trials++
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(Severity(b.Level), Severity(a.Level)), cmp.Compare(b.Trials, a.Trials))
	})
	return all
}

// Severity orders levels from ok to invalid.
func Severity(l record.Level) int {
	return slices.Index([]record.Level{record.OK, record.Unknown, record.Warning, record.Invalid}, l)
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
