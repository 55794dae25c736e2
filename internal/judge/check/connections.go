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

// checkConnections checks that the client opened as many connections as the mode asks for. A pool
// may open fewer. Connections that were replaced before the window do not count.
func (t trial) checkConnections() record.Check {
	made := t.Connections
	if mode, err := scenario.ParseConnection(made.Mode); err == nil && mode.Mode.PerRequest() {
		return t.checkConnectionPerRequest(mode.Mode)
	}
	c := record.Check{Level: record.OK, Unit: "connections"}
	opened, want := float64(made.Opened), float64(made.Want)
	c.Figure, c.Limit = &opened, &want
	c.Detail = fmt.Sprintf("%s: the mode asks for %d connections; %d were opened, %d of them in the window; %d attempts failed", made.Mode, made.Want, made.Opened, made.During, made.Failed)
	growing := strings.HasPrefix(made.Mode, string(scenario.Pool)) && opened <= want
	if strings.HasPrefix(made.Mode, string(scenario.Auto)) && opened > 0 && made.Failed == 0 {
		return c // the pool opens and closes connections by its own rules
	}
	switch {
	case t.Cell.Kind().MayFail && opened >= want && made.During > 0:
		c.Level = record.Warning
		c.Detail += ": the service closed connections, and calls waited for new ones"
	case !growing && (opened < want || made.During > 0):
		c.Level = record.Invalid
	case opened != want || made.During > 0 || made.Failed > 0:
		c.Level = record.Warning
	}
	return c
}

// checkConnectionPerRequest checks that every answered request opened a connection, with the mode's
// kind of handshake. It allows for requests at the window's edges.
func (t trial) checkConnectionPerRequest(mode scenario.ConnectionMode) record.Check {
	c := record.Check{Level: record.OK, Unit: "connections"}
	made := t.Connections
	opened, answered := float64(made.During), float64(t.Requests-t.Failed())
	c.Figure, c.Limit = &opened, &answered
	c.Detail = fmt.Sprintf("%s: %d connections for %.0f answers", mode, made.During, answered)
	edges := 2*float64(t.Cell.Clients) + t.limits.Edge*float64(t.Requests)
	switch {
	case opened < answered-edges:
		c.Level = record.Invalid
		c.Detail += ": some requests shared a connection"
		return c
	case opened > float64(t.Requests)+edges:
		c.Level = record.Warning
		c.Detail += ": the client opened more connections than it sent requests"
	}
	all, wrong, what := countHandshakes(made, mode)
	if all == 0 {
		if mode != scenario.New {
			c.Level = record.Invalid
			c.Detail += ", and no TLS session was resumed"
		}
		return c
	}
	c.Detail += fmt.Sprintf("; %d handshakes, %d of them %s", all, wrong, what)
	if level := warnAboveZero(t.limits.Handshakes).level(float64(wrong) / float64(all)); level != record.OK {
		c.Level = level
	}
	return c
}

// countHandshakes counts all handshakes, and the handshakes of another kind than the mode asks for.
func countHandshakes(made record.Connections, mode scenario.ConnectionMode) (all, wrong int64, what string) {
	all = made.Full + made.Resumed
	switch mode {
	case scenario.Resumed:
		return all, made.Full, "full"
	case scenario.Early:
		return all, all - made.Early, "without accepted early data"
	default:
		return all, made.Resumed, "resumed"
	}
}

// checkLink checks that an emulated link had the wanted delay and share of lost packets.
func (t trial) checkLink() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "no link is emulated"}
	l := t.Link
	if l == nil || !t.Cell.Network.Linked() {
		return c
	}
	c.Detail = fmt.Sprintf("%d frames crossed the link", l.Frames)
	if l.Engine != "" {
		c.Detail += " (" + l.Engine + ")"
	}
	ways := t.directions()
	t.judgeLateness(&c, ways)
	for _, w := range ways {
		t.judgeLostFrames(&c, w)
	}
	if l.Dropped > 0 {
		setVerdict(&c, record.Invalid, "the emulator dropped %d of %d frames because its queue was full: the result shows the emulator's limit, not the link's; use a lower rate", l.Dropped, l.Frames)
	}
	return c
}

// A direction holds the wanted and the measured behaviour of a link in one direction.
type direction struct {
	name  string // "up, " or "down, " for messages; empty in older records, which do not separate directions
	asked record.Way
	did   record.LinkWay
}

// directions returns both directions of a link, or one for both in older records.
func (t trial) directions() []direction {
	l, network := t.Link, t.Cell.Network
	if l.Up == nil || l.Down == nil {
		return []direction{{asked: record.Way{DelayNS: network.DelayNS}, did: record.LinkWay{LateP50NS: &l.LateP50NS, LateP99NS: &l.LateP99NS}}}
	}
	return []direction{{"up, ", network.Up, *l.Up}, {"down, ", network.Down, *l.Down}}
}

// judgeLateness compares the lateness of frames with the wanted delay. It reports the direction
// with the larger ratio. If a direction has no delay of its own, it uses the network's delay.
func (t trial) judgeLateness(c *record.Check, ways []direction) {
	var worst direction
	latest := -1.0
	for _, w := range ways {
		w.asked.DelayNS = cmp.Or(w.asked.DelayNS, t.Cell.Network.DelayNS)
		if w.asked.DelayNS == 0 || w.did.LateP99NS == nil {
			continue // without a delay, or without a reported lateness
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
	setVerdict(c, level, "%s; %sframes were late by %s in the median and by %s at P99; the wanted delay is %s",
		c.Detail, worst.name, units.Time(float64(*worst.did.LateP50NS)), units.Time(float64(*worst.did.LateP99NS)), units.Time(float64(worst.asked.DelayNS)))
	if level == record.Invalid {
		c.Detail += fmt.Sprintf("; use a delay of at least %s, which the emulator can keep", units.Time(float64(*worst.did.LateP99NS)/t.limits.Link.Invalid))
	}
}

// judgeLostFrames compares a direction's lost frames with the wanted share.
func (t trial) judgeLostFrames(c *record.Check, d direction) {
	asked, did := d.asked, d.did
	share := 1 - (1-asked.Loss)*(1-asked.BurstLoss)
	if share == 0 && did.Lost == 0 || did.Frames == 0 {
		return
	}
	c.Detail += fmt.Sprintf("; %s%d of %d frames were lost (%s; the scenario asks for %s)", d.name, did.Lost, did.Frames, percentText(float64(did.Lost)/float64(did.Frames)), percentText(share))
	// The frames of a burst are lost together, so they count as one frame for the test.
	together := max(1, 2*asked.BurstPackets-1)
	if stats.BinomialP(float64(did.Frames)/together, float64(did.Lost)/together, share) < t.limits.LossP {
		setVerdict(c, record.Invalid, "%s: the difference is too large for chance", c.Detail)
	}
}
