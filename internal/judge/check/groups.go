package check

import (
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// These limits separate two kinds of calls: almost no call took a time between the two. Five
// of the 614 trials of all studies have such a gap; in four, half of the calls failed at once.
const (
	groupsApart = 3    // times as long the slower ones take, at least
	groupLeast  = 0.1  // share of the calls that makes a group
	inTheGap    = 0.01 // share of the calls between the two, at most
)

// groups checks that all calls are of one kind. A balancer before two unlike servers, or a
// cache that holds half of the answers, makes two kinds, and the mean describes neither.
func (t trial) groups() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "the calls are of one kind, by how long they took"}
	h, err := t.Service.Decode()
	if err != nil || h.Count() < courseAtLeast/groupLeast {
		return c
	}
	for quick := groupLeast; quick <= 1-groupLeast-inTheGap; quick += inTheGap / 2 {
		longest, shortest := h.Quantile(quick), h.Quantile(quick+inTheGap)
		if shortest <= groupsApart*longest {
			continue
		}
		slow := 1 - quick
		c.Figure, c.Limit = &slow, new(groupLeast)
		verdict(&c, record.Warning, "%s of the calls took %s and more, and the others %s at most: they are of two kinds, and the mean is of neither",
			percent(slow), units.Time(float64(shortest)), units.Time(float64(longest)))
		return c
	}
	return c
}
