package judge

import (
	"fmt"

	"wirelab.dev/internal/record"
	"wirelab.dev/internal/stats"
	"wirelab.dev/internal/units"
)

// link checks that an emulated link kept its delay, and lost what it was asked to lose and
// nothing else.
func (t trial) link() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "none is emulated"}
	l := t.Link
	if l == nil || !t.Cell.Network.Linked() {
		return c
	}
	c.Detail = fmt.Sprintf("%d frames crossed the link", l.Frames)
	if l.Engine != "" {
		c.Detail += " (" + l.Engine + ")"
	}
	t.late(&c)
	for _, way := range []struct {
		name  string
		asked record.Way
		did   *record.LinkWay
	}{{"up", t.Cell.Network.Up, l.Up}, {"down", t.Cell.Network.Down, l.Down}} {
		if way.did != nil {
			t.lost(&c, way.name, way.asked, *way.did)
		}
	}
	if l.Dropped > 0 {
		verdict(&c, record.Invalid, "%d of %d frames were dropped for want of room: the emulation is the limit, not the link", l.Dropped, l.Frames)
	}
	return c
}

// late compares how late frames were with the delay that was asked for.
func (t trial) late(c *record.Check) {
	delay := t.Cell.Network.DelayNS
	if delay == 0 || t.Link.Up != nil && t.Link.Up.LateP99NS == nil {
		return // nothing to be late of, or an engine that does not tell
	}
	late := float64(t.Link.LateP99NS) / float64(delay)
	c.Figure, c.Limit = &late, new(t.limits.Link.Invalid)
	verdict(c, t.limits.Link.level(late), "%s; they were late by %s in the median and %s at P99, of a delay of %s",
		c.Detail, units.Time(float64(t.Link.LateP50NS)), units.Time(float64(t.Link.LateP99NS)), units.Time(float64(delay)))
}

// lost compares how many frames a way has lost with how many it was asked to lose.
func (t trial) lost(c *record.Check, name string, asked record.Way, did record.LinkWay) {
	share := 1 - (1-asked.Loss)*(1-asked.BurstLoss)
	if share == 0 && did.Lost == 0 || did.Frames == 0 {
		return
	}
	c.Detail += fmt.Sprintf("; %s, %d of %d were lost (%s; asked for %s)", name, did.Lost, did.Frames, percent(float64(did.Lost)/float64(did.Frames)), percent(share))
	// Frames of one run are lost or kept together, so fewer of them are independent.
	together := max(1, 2*asked.BurstPackets-1)
	if stats.BinomialP(float64(did.Frames)/together, float64(did.Lost)/together, share) < t.limits.LossP {
		verdict(c, record.Invalid, "%s: that is not chance", c.Detail)
	}
}
