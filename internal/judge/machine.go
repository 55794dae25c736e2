package judge

import (
	"wirelab.dev/internal/record"
)

// neighbours checks how much CPU time other processes took.
func (t trial) neighbours() record.Check {
	c := share("other processes took %s of the CPU time", t.Host.OthersShare, t.limits.Others)
	if t.Cell.Target != "" && t.Host.OthersShare != nil {
		c.Level = record.Unknown
		c.Detail += ", the server at " + t.Cell.Target + " among them if it is on this machine"
	}
	return c
}

// stolenCPU checks how much CPU time the hypervisor gave to other guests.
func (t trial) stolenCPU() record.Check {
	return share("the hypervisor gave %s of the CPU time to others", t.Host.StolenShare, t.limits.Stolen)
}

// noise checks how much of its own CPUs a worker lost while it only spun.
func (t trial) noise() record.Check {
	lost := t.Host.LostBefore
	if after := t.Host.LostAfter; lost == nil || after != nil && *after > *lost {
		lost = after
	}
	return share("a worker that only spun, before or after, lost %s of its CPU to others", lost, t.limits.Lost)
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
