package check

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/data/record"
)

// neighbours checks how much CPU time other processes took.
func (t trial) neighbours() record.Check {
	bounds := t.limits.Others
	if t.watched() {
		// For how long they kept an end waiting is judged by itself. What is left are
		// caches, memory and clock frequency.
		bounds = Bounds{Warning: t.limits.Beside, Invalid: 1}
	}
	c := share("other processes took %s of the CPU time", t.Host.OthersShare, bounds)
	if t.Host.OthersShare != nil {
		c.Detail += t.byName(*t.Host.OthersShare)
	}
	if t.Cell.Target != "" && t.Host.OthersShare != nil && !t.Cell.Kind().Unplaced {
		c.Level = record.Unknown
		c.Detail += ", the server at " + t.Cell.Target + " among them if it is on this machine"
	}
	return c
}

// watched reports whether it is known for how long others kept each end waiting.
func (t trial) watched() bool {
	return !slices.ContainsFunc(t.ends(), func(e end) bool { return e.Gaps == nil })
}

// byName names the processes that took a tenth or more of what others took.
func (t trial) byName(others float64) string {
	const most = 3
	var names []string
	took := map[string]float64{}
	for _, n := range t.Host.Neighbours {
		if took[n.Name] == 0 {
			names = append(names, n.Name)
		}
		took[n.Name] += n.Share
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(took[b], took[a]) })
	words := ""
	for _, name := range names[:min(most, len(names))] {
		if took[name] >= others/10 {
			words += fmt.Sprintf(", %s %s", name, percent(took[name]))
		}
	}
	return words
}

// stolenCPU checks how much CPU time the hypervisor gave to other guests.
func (t trial) stolenCPU() record.Check {
	return share("the hypervisor gave %s of the CPU time to others", t.Host.StolenShare, t.limits.Stolen)
}

// noise checks which share of its CPUs a worker lost while it only spun.
func (t trial) noise() record.Check {
	lost := t.Host.LostBefore
	if after := t.Host.LostAfter; lost == nil || after != nil && *after > *lost {
		lost = after
	}
	bounds := t.limits.Lost
	if t.watched() { // then what happened in the window is known, and this was outside it
		bounds.Invalid = 1
	}
	return share("a worker that only spun, before or after, lost %s of its CPU to others", lost, bounds)
}

// share checks a share of CPU time that went to others.
func share(words string, figure *float64, bounds Bounds) record.Check {
	c := record.Check{Level: record.Unknown, Unit: "share", Limit: &bounds.Invalid, Detail: "not known on this machine"}
	if figure == nil {
		return c
	}
	c.Figure = figure
	verdict(&c, bounds.level(*figure), words, percent(*figure))
	return c
}
