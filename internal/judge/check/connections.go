package check

import (
	"cmp"
	"fmt"
	"slices"
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
	case t.Streams != nil && opened >= want: // the check "streams" tells which ended
	case t.Addresses.Changed() && opened >= want:
		c.Detail += ", because the addresses of the name changed"
		if made.Failed > 0 {
			c.Level = record.Warning
		}
	case t.Cell.Kind().MayFail && opened >= want && made.During > 0:
		c.Level = record.Warning
		c.Detail = fmt.Sprintf("the service closed connections: for %d at once, %d were opened, %d of them in the window, and calls waited for new ones", made.Want, made.Opened, made.During)
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

const (
	// A slow connection has at least leastConnectionCalls calls, whose mean is at least slowRatio times
	// the mean of the others. Three quarters of its calls take longer than nine tenths of the calls on
	// each other connection. Chance made such a connection in none of 100,000 windows
	// (TestEqualConnectionsAreNotTold).
	leastConnectionCalls = 20
	slowRatio            = 1.5
	// Failing connections have at least mostFailures of at least leastFailures failures. Chance makes
	// them with a probability of at most failingP, over all choices of connections.
	leastFailures = 10
	mostFailures  = 0.9
	failingP      = 1e-6
	// failingShare is the share of failed calls from which a connection's times are not compared: many
	// failed calls end at once, and others take very long.
	failingShare = 0.1
)

// checkSingleConnections looks for connections that are slower than the others, or that have almost
// all failures. In a closed loop, a slow connection makes few calls, so percentiles hide it.
func (t trial) checkSingleConnections() record.Check {
	c := record.Check{Level: record.OK, Unit: "connections", Detail: "does not apply: the clients have no connections of their own, or there are too many"}
	groups := []connectionGroup{{calls: t.addressCalls(), name: t.nameAddresses}, {calls: t.ByConnection, name: t.nameConnections}}
	found := t.uncalledAddresses()
	odd, uncalled, compared := len(found), len(found), false
	for _, g := range groups {
		if len(g.calls) > 1 && len(found) == uncalled {
			some, count := t.oddConnections(g)
			c.Detail = "no connection is much slower than the others, and none has almost all failures"
			found, odd, compared = append(found, some...), odd+count, true
		}
	}
	if !compared && len(found) == 0 {
		return c
	}
	c.Figure, c.Limit = new(float64(odd)), new(0.0)
	if len(found) > 0 {
		setVerdict(&c, record.Warning, "%s", strings.Join(found, "; "))
	}
	return c
}

// A connectionGroup holds the calls of connections, or of addresses, that are compared.
type connectionGroup struct {
	calls []record.ConnectionCalls
	name  func([]record.ConnectionCalls) string
}

// oddConnections says which connections of a group are slow, and which have almost all failures.
func (t trial) oddConnections(g connectionGroup) (found []string, odd int) {
	slow, rest := g.slow()
	failing, failed := g.failing()
	if len(slow) > 0 {
		those, others := sumConnections(slow), sumConnections(rest)
		mean, usual := float64(those.SumNS)/float64(those.Requests), float64(others.SumNS)/float64(others.Requests)
		is, made := "is", "it made"
		if len(slow) > 1 {
			is, made = "are", "they made"
		}
		found = append(found, fmt.Sprintf("%s %s %s slower than the others: mean %s against %s; %s %s of the calls",
			g.name(slow), is, units.Time(mean-usual), units.Time(mean), units.Time(usual), made, units.Percent(float64(those.Requests)/float64(max(1, t.Requests)))))
	}
	if len(failing) > 0 {
		all := fmt.Sprintf("%d of %d", failed, t.Failed())
		if failed == t.Failed() {
			all = fmt.Sprintf("all %d", failed)
		}
		found = append(found, fmt.Sprintf("%s failures were on %s", all, g.name(failing)))
	}
	return found, max(len(slow), len(failing))
}

// nameConnections counts connections, or names held streams: users know these by their numbers.
func (t trial) nameConnections(some []record.ConnectionCalls) string {
	const most = 5
	if t.Streams == nil {
		return fmt.Sprintf("%d of %d connections", len(some), len(t.ByConnection))
	}
	var numbers []string
	for _, c := range some[:min(len(some), most)] {
		numbers = append(numbers, fmt.Sprint(c.Client))
	}
	if len(some) > most {
		numbers = append(numbers, "…")
	}
	return fmt.Sprintf("%d of %d streams (number %s)", len(some), len(t.ByConnection), strings.Join(numbers, ", "))
}

// slow returns the connections that are slower than all others, and the others. It
// returns nothing if there is no clear gap.
func (g connectionGroup) slow() (slow, rest []record.ConnectionCalls) {
	judged := slices.DeleteFunc(slices.Clone(g.calls), func(c record.ConnectionCalls) bool {
		return c.Requests < leastConnectionCalls || float64(c.Failed) > failingShare*float64(c.Requests)
	})
	slices.SortFunc(judged, func(a, b record.ConnectionCalls) int { return cmp.Compare(b.P25NS, a.P25NS) })
	for k := 1; k <= len(judged)/2; k++ {
		slow, rest = judged[:k], judged[k:]
		most := slices.MaxFunc(rest, func(a, b record.ConnectionCalls) int { return cmp.Compare(a.P90NS, b.P90NS) })
		those, others := sumConnections(slow), sumConnections(rest)
		ratio := float64(those.SumNS) / float64(those.Requests) * float64(others.Requests) / float64(max(1, others.SumNS))
		if slow[k-1].P25NS > most.P90NS && ratio >= slowRatio {
			return slow, rest
		}
	}
	return nil, nil
}

// failing returns the connections that have almost all failures, and how many they have.
// It returns none if chance may be the reason.
func (g connectionGroup) failing() (failing []record.ConnectionCalls, failed int64) {
	all := sumConnections(g.calls)
	if all.Failed < leastFailures {
		return nil, 0
	}
	sorted := slices.Clone(g.calls)
	slices.SortFunc(sorted, func(a, b record.ConnectionCalls) int { return cmp.Compare(b.Failed, a.Failed) })
	n, choices := len(sorted), 1.0
	for k := 1; k <= n/2; k++ {
		choices *= float64(n-k+1) / float64(k)
		those := sumConnections(sorted[:k])
		if float64(those.Failed) < mostFailures*float64(all.Failed) {
			continue
		}
		// A connection whose calls fail at once makes more calls. Its good answers do not show that.
		share := float64(those.Requests-those.Failed+int64(k)) / float64(all.Requests-all.Failed+int64(n))
		if choices*stats.BinomialP(float64(all.Failed), float64(those.Failed), share) > failingP {
			return nil, 0
		}
		return sorted[:k], those.Failed
	}
	return nil, 0
}

func sumConnections(all []record.ConnectionCalls) (sum record.ConnectionCalls) {
	for _, one := range all {
		sum = sum.Plus(one)
	}
	return sum
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
	c.Detail += fmt.Sprintf("; %s%d of %d frames were lost (%s; the scenario asks for %s)", d.name, did.Lost, did.Frames, units.Percent(float64(did.Lost)/float64(did.Frames)), units.Percent(share))
	// The frames of a burst are lost together, so they count as one frame for the test.
	together := max(1, 2*asked.BurstPackets-1)
	if stats.BinomialP(float64(did.Frames)/together, float64(did.Lost)/together, share) < t.limits.LossP {
		setVerdict(c, record.Invalid, "%s: the difference is too large for chance", c.Detail)
	}
}
