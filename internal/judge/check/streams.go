package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// checkStreams tells which held streams ended, which messages are missing, and which were not
// understood. Its counts include the warm-up.
func (t trial) checkStreams() record.Check {
	c := record.Check{Level: record.OK, Unit: "streams", Detail: "does not apply: the clients held no streams"}
	s := t.Streams
	if s == nil {
		return c
	}
	found := slices.Concat(describeEnds(s, t.WindowNS), describeSequence(s.Sequence, s.Held))
	if n := s.Unmatched; n > 0 {
		found = append(found, fmt.Sprintf("%s came when no call waited for them: answers that were too late, or messages that are no answers (--match finds the right ones)", countMessages(n)))
	}
	if n := s.Unread; n > 0 {
		found = append(found, fmt.Sprintf("in %s, an expression of --match, --sent-at or --sequence found no usable value", countMessages(n)))
	}
	c.Figure, c.Limit = new(float64(s.Reopened)), new(0.0)
	c.Detail = fmt.Sprintf("all %d streams stayed open", s.Held)
	if len(found) > 0 {
		setVerdict(&c, record.Warning, "%s", strings.Join(found, "; "))
	}
	return c
}

func countMessages(n int64) string {
	if n == 1 {
		return "1 message"
	}
	return units.Thousands(n) + " messages"
}

// shownEnds is the greatest number of reasons that the check names.
const shownEnds = 3

func describeEnds(s *record.Streams, windowNS int64) (found []string) {
	if len(s.Ends) == 0 && s.FailedOpenings == 0 {
		return nil
	}
	var all int64
	var reasons []string
	sorted := slices.Clone(s.Ends)
	slices.SortStableFunc(sorted, func(a, b record.ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	for i, e := range sorted {
		all += e.Count
		if i < shownEnds {
			reasons = append(reasons, fmt.Sprintf("%s times %s", units.Thousands(e.Count), e.Code))
		}
	}
	text := fmt.Sprintf("streams ended %s times (%s) and were reopened %s times", units.Thousands(all), strings.Join(reasons, ", "), units.Thousands(s.Reopened))
	if s.FailedOpenings > 0 {
		text += fmt.Sprintf("; %s attempts to open one again failed", units.Thousands(s.FailedOpenings))
	}
	if share := float64(s.ClosedNS) / float64(max(1, s.Held)) / float64(max(1, windowNS)); s.ClosedNS > 0 {
		text += fmt.Sprintf("; they were closed for %s in all, which is %s of the window for each stream", units.Time(float64(s.ClosedNS)), units.Percent(share))
	}
	return append(found, text)
}

func describeSequence(q *record.Sequence, streams int64) (found []string) {
	if q == nil {
		return nil
	}
	if q.Missing > 0 {
		found = append(found, fmt.Sprintf("%s never came, on %s of %s streams", countMessages(q.Missing), units.Thousands(q.Streams), units.Thousands(streams)))
	}
	if q.Duplicate > 0 {
		found = append(found, countMessages(q.Duplicate)+" came more than once")
	}
	if q.Reordered > 0 {
		found = append(found, countMessages(q.Reordered)+" came after a later one")
	}
	return found
}
