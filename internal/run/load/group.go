package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
)

// Group says which callers of a larger group a plan has: those from First on. Arrivals and
// Extra are then those of the whole group. Each plan takes those of its callers, so that
// plans that share a seed and an instant of begin send together what one plan would.
type Group struct {
	First int // from 0
	Of    int // callers of the whole group
}

// group is that of the plan, which is all of it where none is named.
func (p *Plan) group() Group {
	if p.Group != nil {
		return *p.Group
	}
	return Group{Of: len(p.Callers)}
}

// extra is how many of the plan's own callers measure one request more.
func (p *Plan) extra() int { return min(max(p.Extra-p.group().First, 0), len(p.Callers)) }

func (p *Plan) validateGroup() error {
	if g := p.group(); g.First < 0 || g.First+len(p.Callers) > g.Of {
		return fmt.Errorf("load: %d clients of a group of %d, from number %d on: want them to be among it", len(p.Callers), g.Of, g.First)
	}
	if (p.Begins != AtOnce || p.Opens != AtOnce) && p.Controls == nil {
		return fmt.Errorf("load: it is to wait until it is told to begin, and has no controls")
	}
	return nil
}

// share is which arrivals of a schedule are a plan's: those of clients from first to
// first+clients, of so many.
type share struct{ first, clients, of int64 }

func (p *Plan) share() share {
	g := p.group()
	return share{first: int64(g.First), clients: int64(len(p.Callers)), of: int64(g.Of)}
}

// number is that, among all arrivals, of the own one with a number, where clients take turns.
func (s share) number(own int64) int64 { return own/s.clients*s.of + s.first + own%s.clients }

// count is how many of so many arrivals are own ones, where clients take turns.
func (s share) count(all int64) int64 {
	return all/s.of*s.clients + min(max(all%s.of-s.first, 0), s.clients)
}

// expected is how many of so many arrivals will be own ones.
func (s share) expected(all float64) float64 { return all * float64(s.clients) / float64(s.of) }

// turns returns whether an arrival is an own one, called once for each in order, where
// clients take turns.
func (s share) turns() func() bool {
	client := s.of - 1
	return func() bool {
		client = (client + 1) % s.of
		return s.first <= client && client < s.first+s.clients
	}
}

// draws returns the same where the client of each arrival is drawn: what is thinned out of a
// Poisson process so is one.
func (s share) draws(seed uint64) func() bool {
	if s.clients == s.of {
		return func() bool { return true }
	}
	random := rand.New(rand.NewPCG(seed, 0x67726f7570)) // the constant keeps it different from other uses of the seed
	return func() bool {
		client := random.Int64N(s.of)
		return s.first <= client && client < s.first+s.clients
	}
}

// Cue is what a plan waits for.
type Cue int

// The cues.
const (
	AtOnce Cue = iota // nothing
	OnGo              // Controls.Go
	OnOpen            // Controls.Open
)

const (
	// openPatience is how long a load that may open its window, or that is warmed up, waits
	// to be told to.
	openPatience = time.Minute
	// lead is how long before the instant of a cue what it is for is prepared.
	lead = 2 * notice
	// oldestCue is how long ago an instant may be. An older one is now, since a window would
	// be over that begins there.
	oldestCue = 10 * time.Second
)

// awaitBegin waits for what the plan's first call waits for, until shortly before its instant,
// which it returns. One that is over is still where a schedule begins: what was due since is
// late.
func (c *controller) awaitBegin(ctx context.Context) (int64, error) {
	since := clock.Now()
	c.lastReport = since - int64(reportEvery)
	for {
		now := clock.Now()
		at, told := c.cue(c.plan.Begins, now)
		switch {
		case c.plan.Begins == AtOnce:
			return now, nil
		case c.plan.Controls.end.Load():
			return 0, ErrNothingMeasured
		case told && at-now <= int64(lead):
			return at, nil
		case c.plan.Begins == OnOpen && now-since > int64(openPatience):
			return 0, errNotOpened
		}
		wait := tick
		if told {
			wait = min(wait, time.Duration(at-now)-lead)
		}
		c.reportWaiting(now)
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

var errNotOpened = fmt.Errorf("load: its warm-up could end, and within %v it was not told to open the window: want the control open", openPatience)

// cue is the instant of a cue, if it was given.
func (c *controller) cue(of Cue, now int64) (at int64, told bool) {
	var given *int64
	switch of {
	case OnGo:
		given = c.plan.Controls.goAt.Load()
	case OnOpen:
		given = c.plan.Controls.openAt.Load()
	}
	if given == nil {
		return 0, false
	}
	if *given < now-int64(oldestCue) {
		return now, true
	}
	return *given, true
}

func (c *controller) reportWaiting(now int64) {
	if c.plan.Report == nil || now-c.lastReport < int64(reportEvery) {
		return
	}
	c.lastReport = now
	c.plan.Report(live.Progress{Warming: true, Settled: c.plan.Begins == OnOpen})
}

// openWhenTold opens the window of a load whose warm-up may end. It is announced as late as
// it can be, since the counters are read then.
func (c *controller) openWhenTold(now int64) error {
	if c.mayOpen == 0 {
		c.mayOpen = now
		c.lastReport = now - int64(reportEvery) // whoever tells it to waits for this
	}
	at, told := c.cue(OnOpen, now)
	ahead := time.Duration(at - now)
	switch {
	case told && ahead <= tick+lead+tick/2: // the next tick may be too late
		time.Sleep(ahead - lead)
		c.readyToOpen()
		c.announce(max(at, clock.Now()+int64(notice)))
	case now-c.mayOpen > int64(openPatience):
		return errNotOpened
	}
	return nil
}
