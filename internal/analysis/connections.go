package analysis

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
)

// Survival is how many requests were answered, over all trials that came to a
// measurement. Those that a check refused count too: what made them invalid may
// be the very failures, and to leave them out would count the survivors alone.
type Survival struct {
	Trials    int
	Requests  int64
	Succeeded int64
	Failures  []record.ErrorCount // most frequent first; class and code each once
}

// Share is between 0 and 1; false where nothing was requested.
func (s Survival) Share() (float64, bool) {
	if s.Requests == 0 {
		return 0, false
	}
	return float64(s.Succeeded) / float64(s.Requests), true
}

func survivalOf(trials []trial) Survival {
	s := Survival{Trials: len(trials)}
	for _, t := range trials {
		s.Requests += t.Requests
		s.Succeeded += max(0, t.Requests-t.Failed())
		s.Failures = addFailures(s.Failures, t.Errors)
	}
	return s
}

// addFailures adds up failures of the same class and code, which keep the first
// example.
func addFailures(all, more []record.ErrorCount) []record.ErrorCount {
	for _, e := range more {
		i := slices.IndexFunc(all, func(k record.ErrorCount) bool { return k.Class == e.Class && k.Code == e.Code })
		if i < 0 {
			all = append(all, e)
			continue
		}
		all[i].Count += e.Count
	}
	slices.SortStableFunc(all, func(a, b record.ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// Connections is what was asked for and what came of it. The counts are of the
// window, and of all trials that the cell's figures are of.
type Connections struct {
	PerRequest bool // every request asks for a connection of its own
	Secure     bool // TLS or QUIC handshakes were seen, or the variant has TLS

	Want   int    // at once
	Opened Figure // since the clients began, a trial

	During, Failed                int64
	Full, Resumed, Early          int64
	EarlyRefused, HandshakeFailed int64
	Connect, Handshake, FirstByte *Times
	Achieved                      *float64 // share of the connections that began as asked; nil where the mode keeps its connections
	Differs                       bool     // what was achieved is not what was asked for
}

// Times are those of something that a connection or a call waits for, in
// microseconds.
type Times struct{ Mean, P50, P99 Figure }

// leastAchieved is the share of connections that must have begun as asked. The
// first of a client cannot resume anything.
const leastAchieved = 0.99

func connectionsOf(cell record.Cell, trials []trial) Connections {
	c := Connections{
		Want:      trials[0].Connections.Want,
		Opened:    Figure{Value: over(trials, func(t trial) float64 { return float64(t.Connections.Opened) }).Value},
		Connect:   timesOf(trials, func(t trial) times { return t.connect }),
		Handshake: timesOf(trials, func(t trial) times { return t.handshake }),
		FirstByte: timesOf(trials, func(t trial) times { return t.firstByte }),
	}
	for _, t := range trials {
		made := t.Connections
		c.During += made.During
		c.Failed += made.Failed
		c.Full += made.Full
		c.Resumed += made.Resumed
		c.Early += made.Early
		c.EarlyRefused += made.EarlyRefused
		c.HandshakeFailed += made.HandshakeFailed
	}
	c.Secure = c.Full+c.Resumed > 0 || hasTLS(cell.Variant)
	mode, err := scenario.ParseConnection(cell.Connection)
	if err != nil {
		return c // a mode from elsewhere: nothing can be held against it
	}
	if c.PerRequest = mode.Mode.PerRequest(); c.PerRequest {
		c.Achieved = c.achieved(mode.Mode, trials)
		c.Differs = c.Achieved != nil && *c.Achieved < leastAchieved
		return c
	}
	c.Differs = slices.ContainsFunc(trials, func(t trial) bool { return !kept(mode, t.Connections) })
	return c
}

// achieved is the share of the connections that began as the mode asks. A
// request that failed has no connection to count, and at either edge of the
// window each client may have opened one for a request on its other side.
func (c *Connections) achieved(mode scenario.ConnectionMode, trials []trial) *float64 {
	asWanted, begun := c.During, c.During
	if c.Full+c.Resumed > 0 {
		begun = c.Full + c.Resumed
		asWanted = map[scenario.ConnectionMode]int64{scenario.New: c.Full, scenario.Resumed: c.Resumed, scenario.Early: c.Early}[mode]
	}
	least := int64(0)
	for _, t := range trials {
		least += max(0, t.Requests-t.Failed()-2*int64(t.Cell.Clients))
	}
	of := max(begun, least)
	if of == 0 {
		return nil
	}
	share := float64(asWanted) / float64(of)
	return &share
}

// kept tells whether a mode that keeps its connections had those that it asks
// for: a pool may have fewer.
func kept(mode scenario.Connection, made record.Connections) bool {
	return made.During == 0 && (made.Opened == int64(made.Want) || mode.Mode == scenario.Pool && made.Opened < int64(made.Want))
}

// hasTLS tells whether a variant says that it goes over TLS.
func hasTLS(variant string) bool {
	v, err := scenario.ParseVariant(variant)
	if err != nil {
		return false
	}
	value, _ := v.Get("tls")
	return value == "on"
}

// timesOf is nil where nothing was timed.
func timesOf(trials []trial, of func(trial) times) *Times {
	by := func(pick func(times) float64) *Figure {
		return known(trials, func(t trial) (float64, bool) { return pick(of(t)), of(t).count > 0 })
	}
	mean := by(func(t times) float64 { return t.mean })
	if mean == nil {
		return nil
	}
	return &Times{
		Mean: *mean,
		P50:  *by(func(t times) float64 { return t.p50 }),
		P99:  *by(func(t times) float64 { return t.p99 }),
	}
}

func (c *Connections) figures() []*Figure {
	figures := []*Figure{&c.Opened}
	for _, t := range []*Times{c.Connect, c.Handshake, c.FirstByte} {
		if t != nil {
			figures = append(figures, &t.Mean, &t.P50, &t.P99)
		}
	}
	return figures
}
