package check

import (
	"cmp"
	"fmt"
	"strings"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// connections checks that the mode's connections were opened. A pool may have fewer. Connections
// replaced before the window do not count.
func (t trial) connections() record.Check {
	made := t.Connections
	if mode, err := scenario.ParseConnection(made.Mode); err == nil && mode.Mode.PerRequest() {
		return t.perRequest(mode.Mode)
	}
	c := record.Check{Level: record.OK, Unit: "connections"}
	opened, want := float64(made.Opened), float64(made.Want)
	c.Figure, c.Limit = &opened, &want
	c.Detail = fmt.Sprintf("%s: %d wanted, %d opened, %d of them in the window; %d attempts failed", made.Mode, made.Want, made.Opened, made.During, made.Failed)
	growing := strings.HasPrefix(made.Mode, string(scenario.Pool)) && opened <= want
	if strings.HasPrefix(made.Mode, string(scenario.Auto)) && opened > 0 && made.Failed == 0 {
		return c // the pool opens and closes connections by its own rules
	}
	switch {
	case t.Cell.Kind().MayFail && opened >= want && made.During > 0: // the service ended them
		c.Level = record.Warning
		c.Detail += ": the service ended connections, and calls waited for new ones"
	case !growing && (opened < want || made.During > 0):
		c.Level = record.Invalid
	case opened != want || made.During > 0 || made.Failed > 0:
		c.Level = record.Warning
	}
	return c
}

// perRequest checks that every answered request opened a connection, with the mode's kind of
// handshake. A connection opened at an edge of the window may belong to a request outside of it.
func (t trial) perRequest(mode scenario.ConnectionMode) record.Check {
	c := record.Check{Level: record.OK, Unit: "connections"}
	made := t.Connections
	opened, answered := float64(made.During), float64(t.Requests-t.Failed())
	c.Figure, c.Limit = &opened, &answered
	c.Detail = fmt.Sprintf("%s: %d connections for %.0f answers", mode, made.During, answered)
	edges := 2*float64(t.Cell.Clients) + t.limits.Edge*float64(t.Requests)
	switch {
	case opened < answered-edges:
		c.Level = record.Invalid
		c.Detail += ": requests shared connections"
		return c
	case opened > float64(t.Requests)+edges:
		c.Level = record.Warning
		c.Detail += ": more were opened than requests were sent"
	}
	all, wrong, what := handshakes(made, mode)
	if all == 0 {
		if mode != scenario.New {
			c.Level = record.Invalid
			c.Detail += ", and no TLS session was resumed"
		}
		return c
	}
	c.Detail += fmt.Sprintf("; %d handshakes, %d of them %s", all, wrong, what)
	if level := anyUpTo(t.limits.Handshakes).level(float64(wrong) / float64(all)); level != record.OK {
		c.Level = level
	}
	return c
}

// handshakes counts all handshakes, and those of another kind than the mode asks for.
func handshakes(made record.Connections, mode scenario.ConnectionMode) (all, wrong int64, what string) {
	all = made.Full + made.Resumed
	switch mode {
	case scenario.Resumed:
		return all, made.Full, "full"
	case scenario.Early:
		return all, all - made.Early, "without early data that the server accepted"
	default:
		return all, made.Resumed, "resumed"
	}
}

// link checks that an emulated link kept its delay, and lost the wanted share of packets.
func (t trial) link() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "no link is emulated"}
	l := t.Link
	if l == nil || !t.Cell.Network.Linked() {
		return c
	}
	c.Detail = fmt.Sprintf("%d frames crossed the link", l.Frames)
	if l.Engine != "" {
		c.Detail += " (" + l.Engine + ")"
	}
	ways := t.ways()
	t.late(&c, ways)
	for _, w := range ways {
		t.lost(&c, w)
	}
	if l.Dropped > 0 {
		verdict(&c, record.Invalid, "%d of %d frames were dropped because the emulator's queue was full: the emulation is the limit, not the link", l.Dropped, l.Frames)
	}
	return c
}

// A way is one direction of a link: the wanted behaviour and the measured one.
type way struct {
	name  string // name with a separator, for sentences; empty in older records, which count both together
	asked record.Way
	did   record.LinkWay
}

// ways returns both directions, or a single one in older records.
func (t trial) ways() []way {
	l, network := t.Link, t.Cell.Network
	if l.Up == nil || l.Down == nil {
		return []way{{asked: record.Way{DelayNS: network.DelayNS}, did: record.LinkWay{LateP50NS: &l.LateP50NS, LateP99NS: &l.LateP99NS}}}
	}
	return []way{{"up, ", network.Up, *l.Up}, {"down, ", network.Down, *l.Down}}
}

// late compares the lateness of frames with the wanted delay, in the direction with the larger
// ratio. A direction without a delay gets half of the round trip's.
func (t trial) late(c *record.Check, ways []way) {
	var worst way
	latest := -1.0
	for _, w := range ways {
		w.asked.DelayNS = cmp.Or(w.asked.DelayNS, t.Cell.Network.DelayNS)
		if w.asked.DelayNS == 0 || w.did.LateP99NS == nil {
			continue // no delay, or an engine that does not report lateness
		}
		if late := float64(*w.did.LateP99NS) / float64(w.asked.DelayNS); late > latest {
			worst, latest = w, late
		}
	}
	if latest < 0 {
		return
	}
	c.Figure, c.Limit = &latest, new(t.limits.Link.Invalid)
	level := t.limits.Link.level(latest)
	verdict(c, level, "%s; %sthey were late by %s in the median and %s at P99, for a delay of %s",
		c.Detail, worst.name, units.Time(float64(*worst.did.LateP50NS)), units.Time(float64(*worst.did.LateP99NS)), units.Time(float64(worst.asked.DelayNS)))
	if level == record.Invalid {
		c.Detail += fmt.Sprintf("; a delay of %s would have been kept", units.Time(float64(*worst.did.LateP99NS)/t.limits.Link.Invalid))
	}
}

// lost compares a direction's lost frames with the wanted share.
func (t trial) lost(c *record.Check, w way) {
	asked, did := w.asked, w.did
	share := 1 - (1-asked.Loss)*(1-asked.BurstLoss)
	if share == 0 && did.Lost == 0 || did.Frames == 0 {
		return
	}
	c.Detail += fmt.Sprintf("; %s%d of %d were lost (%s; asked for %s)", w.name, did.Lost, did.Frames, percent(float64(did.Lost)/float64(did.Frames)), percent(share))
	// Frames of one burst are lost or kept together, so fewer are independent.
	together := max(1, 2*asked.BurstPackets-1)
	if stats.BinomialP(float64(did.Frames)/together, float64(did.Lost)/together, share) < t.limits.LossP {
		verdict(c, record.Invalid, "%s: that is not chance", c.Detail)
	}
}
