package chanpool

import (
	"fmt"
	"math"
	"time"
)

// epoch is what was seen of the calls while one number of channels was in use.
type epoch struct {
	took     time.Duration
	calls    int64         // unary ones that began and ended in it
	latency  time.Duration // theirs, summed
	messages int64         // of streams, received
	inFlight int64         // calls and streams, at its end
}

// cost is what a call took, or a message where there are only streams. It is false where
// there was too little to see.
func (e *epoch) cost() (seconds float64, ok bool) {
	switch {
	case e.calls >= fewestCalls:
		return e.latency.Seconds() / float64(e.calls), true
	case e.messages >= fewestCalls:
		return e.took.Seconds() / float64(e.messages), true
	}
	return 0, false
}

const (
	// fewestCalls of an epoch make its mean worth comparing.
	fewestCalls = 50
	// worth is the gain, as a logarithm, from which a channel more is kept: 3 %.
	worth = 0.03
	// A trial compares so many pairs of epochs.
	fewestPairs, mostPairs = 4, 60
	// certain is how many standard errors a gain must lie beyond chance. More would keep fewer
	// channels in vain, which costs little, and miss more gains.
	certain = 2.0
	// harm ends a trial after two pairs.
	harm = 0.25
	// firstWait is how long nothing is tried after a trial that changed nothing. It doubles
	// with each further one, up to longestWait.
	firstWait, longestWait = time.Second, 2 * time.Minute
	// changed is the factor by which the load must grow for more channels to be tried before
	// their time, and fall for fewer.
	changed = 1.5
)

// decider decides how many channels to use. It sees one epoch after the other and has no
// clock, so that it can be tested in worlds of every kind.
type decider struct {
	min, max int
	size     int     // in use when nothing is tried
	load     float64 // calls in flight, averaged over some epochs
	trial    *trial  // nil: none is under way
	up, down patience
}

// patience is how long a direction is not tried.
type patience struct {
	until time.Time
	wait  time.Duration
	load  float64 // when it was last tried in vain
	leap  int     // by how many steps to go next: beyond what did not help, more may
}

// over reports whether it is time to try again. It is sooner where the load has changed so that
// the direction is more promising than before.
func (p *patience) over(now time.Time, promising bool) bool {
	if promising {
		p.wait, p.leap = 0, 0
		return true
	}
	return !now.Before(p.until)
}

func (p *patience) tried(now time.Time, load float64) {
	p.wait = min(max(firstWait, 2*p.wait), longestWait)
	p.until, p.load = now.Add(p.wait), load
	p.leap = min(2*p.leap+1, mostLeap)
}

// mostLeap keeps a try from being one of very many channels for the first time.
const mostLeap = 3

// next takes in an epoch, and says how many channels the next one is to use. A trial that it
// ends is told.
func (d *decider) next(now time.Time, e epoch) (use int, ended *Decision) {
	const share = 0.3 // of the newest epoch in the average
	d.load += share * (float64(e.inFlight) - d.load)
	if t := d.trial; t != nil {
		if cost, ok := e.cost(); ok {
			t.see(cost)
		} else if t.empty++; t.empty > mostPairs { // nobody calls any more
			d.trial = nil
			return d.size, nil
		}
		if ended = t.verdict(); ended != nil {
			d.end(now, ended)
		}
	}
	if _, ok := e.cost(); d.trial == nil && ok {
		d.begin(now)
	}
	return d.inUse(), ended
}

// inUse is the number of channels that calls are to go to.
func (d *decider) inUse() int {
	if d.trial != nil {
		return d.trial.use()
	}
	return d.size
}

// open is the number of channels that are to be open.
func (d *decider) open() int {
	if d.trial != nil {
		return d.trial.large
	}
	return d.size
}

// begin tries more channels, or fewer, if it is time to. More can help only where there are
// more calls at once than channels.
func (d *decider) begin(now time.Time) {
	step := max(1, d.size/2)
	switch {
	case d.size < d.max && d.load > float64(d.size)+0.5 && d.up.over(now, d.load > d.up.load*changed):
		d.trial = &trial{small: d.size, large: min(d.size+step*(1+d.up.leap), d.max), grows: true}
	case d.size > d.min && d.down.over(now, d.load < d.down.load/changed):
		d.trial = &trial{small: max(d.size-step, d.min), large: d.size}
	}
}

func (d *decider) end(now time.Time, ended *Decision) {
	t := d.trial
	d.trial = nil
	d.size = ended.To
	switch {
	case ended.To == ended.From && t.grows:
		d.up.tried(now, d.load)
	case ended.To == ended.From:
		d.down.tried(now, d.load)
	case t.grows: // and fewer need not be tried soon
		d.up = patience{load: d.load, wait: d.up.wait}
		d.down = patience{until: now.Add(firstWait), load: d.load, wait: firstWait}
	default:
		d.up.tried(now, d.load)
	}
	ended.At = now
}

// giveUp ends a trial that cannot go on, as when a channel cannot be opened.
func (d *decider) giveUp(now time.Time) {
	if d.trial != nil {
		d.trial = nil
		d.up.tried(now, d.load)
	}
}

// trial compares two numbers of channels by turns, since the load itself varies.
type trial struct {
	small, large int
	grows        bool // the small number was in use before
	warm         bool // an epoch with the large number has passed, which is not counted
	costs        []float64
	empty        int
}

// turn is the order of the two: small, large, large, small.
var turn = [4]bool{false, true, true, false}

func (t *trial) use() int {
	if !t.warm || turn[len(t.costs)%len(turn)] {
		return t.large
	}
	return t.small
}

func (t *trial) see(cost float64) {
	if !t.warm { // connections were opened, and windows grew
		t.warm = true
		return
	}
	t.costs = append(t.costs, cost)
}

// gain is the logarithm of how much less a call takes with the large number, in the mean over
// pairs of epochs, and its standard error.
func (t *trial) gain() (mean, err float64, pairs int) {
	var sum, squares float64
	for i := 0; i+1 < len(t.costs); i += 2 {
		g := math.Log(t.costs[i] / t.costs[i+1])
		if turn[i%len(turn)] {
			g = -g
		}
		sum += g
		squares += g * g
		pairs++
	}
	n := float64(pairs)
	mean = sum / n
	return mean, math.Sqrt(max(0, squares/n-mean*mean) / max(1, n-1)), pairs
}

// verdict ends the trial, or returns nil while it is open.
func (t *trial) verdict() *Decision {
	if len(t.costs) == 0 || len(t.costs)%2 == 1 {
		return nil
	}
	mean, err, pairs := t.gain()
	d := &Decision{From: t.large, To: t.small, Gain: math.Exp(mean) - 1, Pairs: pairs}
	if t.grows {
		d.From = t.small
	}
	switch {
	case pairs >= 2 && mean < -harm:
		d.Why = fmt.Sprintf("%d channels did harm", t.large)
	case pairs < fewestPairs:
		return nil
	case mean > worth && mean > certain*err:
		d.To = t.large
		d.Why = fmt.Sprintf("%d channels were better", t.large)
	case mean+certain*err < worth, pairs >= mostPairs/2 && mean < worth/2, pairs >= mostPairs:
		d.Why = fmt.Sprintf("%d channels were not seen to be better", t.large)
	default:
		return nil
	}
	return d
}
