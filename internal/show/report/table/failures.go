package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// maxShownFailures is the largest number of kinds of failures that a load prints.
const maxShownFailures = 6

// failures prints how often calls failed, by class, with an example and the share of all requests.
// Statuses that are not among the failures come first, if there are several.
func (t *loadText) failures(cells []*matrix.Cell) {
	var kinds []record.ErrorCount
	var statuses []record.StatusCount
	requests := int64(0)
	for _, c := range cells {
		requests += c.Requests
		kinds, statuses = record.PlusErrors(kinds, c.ErrorKinds), record.PlusStatuses(statuses, c.Statuses)
	}
	slices.SortStableFunc(kinds, func(a, b record.ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	others := slices.DeleteFunc(NamedStatuses(&cells[0].Cell, statuses), func(s AnswerStatus) bool {
		return slices.ContainsFunc(kinds, func(e record.ErrorCount) bool { return e.Code == s.Name || strings.HasPrefix(s.Name, e.Code+" ") })
	})
	if len(others) > 1 || len(others) == 1 && others[0].Bad {
		t.sentence("statuses", strings.Join(lists.Map(others, func(s AnswerStatus) string { return units.Thousands(s.Count) + " × " + s.Name }), ", "))
	}
	name := "failed"
	for i, e := range kinds {
		if i == maxShownFailures {
			t.fact("", fmt.Sprintf("and %s, in the report", words.Count(len(kinds)-i, "other kind")))
			break
		}
		t.sentence(name, fmt.Sprintf("%s (%s)  %s", units.Thousands(e.Count), shareText(e.Count, requests), describeFailure(e)))
		name = ""
	}
}

// describeFailure returns the class of failed calls, and an example of its error.
func describeFailure(e record.ErrorCount) string {
	const answered = "the server answered "
	text := words.PlainError(format.Shorten(strings.ReplaceAll(e.Example, "\n", " "), 161))
	if e.Class == "application" && strings.HasPrefix(text, answered) {
		return strings.TrimPrefix(text, answered)
	}
	if text == "" {
		return e.Class
	}
	class := e.Class
	if e.Code != "" && e.Code != codes.Unknown.String() { // HTTP has no such code
		class += " (" + e.Code + ")"
	}
	return class + ": " + text
}

// shareText returns a share in percent. It shows 100 % only for all of them.
func shareText(some, all int64) string {
	share := float64(some) / float64(max(1, all))
	if share > 0.99 {
		return words.Percent(share)
	}
	return units.Percent(share)
}
