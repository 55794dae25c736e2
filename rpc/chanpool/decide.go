package chanpool

import (
	"fmt"
	"math"
	"time"
)

// An epoch sums up the calls of a period in which the number of channels does not change.
type epoch struct {
	took     time.Duration
	calls    int64         // unary calls that began and ended in the epoch
	latency  time.Duration // total time of these unary calls
	messages int64         // messages that streams received
	inFlight int64         // calls and streams in flight at the end of the epoch
}

// meanCost returns the mean time of a unary call or, if these are fewer than minCalls, the mean
// time between messages of streams. ok is false if there are also fewer than minCalls messages.
func (e *epoch) meanCost() (seconds float64, ok bool) {
	switch {
	case e.calls >= minCalls:
		return e.latency.Seconds() / float64(e.calls), true
	case e.messages >= minCalls:
		return e.took.Seconds() / float64(e.messages), true
	}
	return 0, false
}

const (
	// minCalls is the least number of calls, or of messages, for which an epoch has a mean.
	minCalls = 50
	// minGain is the least gain for which the pool keeps more channels: 3 %, as a logarithm.
	minGain = 0.03
	// A trial compares at least minPairs and at most maxPairs pairs of epochs.
	minPairs, maxPairs = 4, 60
	// minStandardErrors is the number of standard errors by which a gain must exceed zero. With a
	// larger number, the pool would keep fewer useless channels, but miss more gains.
	minStandardErrors = 2.0
	// maxLoss is the loss that ends a trial after only two pairs of epochs, as a logarithm.
	maxLoss = 0.25
	// firstWait is the pause after a trial that changed nothing. The pause doubles with each
	// further trial that changes nothing, up to longestWait.
	firstWait, longestWait = time.Second, 2 * time.Minute
	// loadChange is the change of load that ends a pause early. If the load grows by this factor,
	// the pool tries more channels. If the load falls by this factor, the pool tries fewer.
	loadChange = 1.5
)

// A decider decides how many channels to use. Its input is a sequence of epochs. It has no clock,
// so that tests can simulate every kind of load.
type decider struct {
	min, max int
	size     int     // channels in use while there is no trial
	load     float64 // calls in flight, averaged over some epochs
	trial    *trial  // the current trial, or nil
	up, down pause
}

// A pause is a period without trials of more channels, or without trials of fewer channels.
type pause struct {
	until      time.Time
	wait       time.Duration
	load       float64 // calls in flight at the last trial that changed nothing
	extraSteps int     // steps to add to the next trial, because a few channels did not help
}

// over reports whether the pause is over. If promising is true, the load has changed in a way that
// promises a gain, and the pause ends early.
func (p *pause) over(now time.Time, promising bool) bool {
	if promising {
		p.wait, p.extraSteps = 0, 0
		return true
	}
	return !now.Before(p.until)
}

// lengthen begins a longer pause after a trial that changed nothing.
func (p *pause) lengthen(now time.Time, load float64) {
	p.wait = min(max(firstWait, 2*p.wait), longestWait)
	p.until, p.load = now.Add(p.wait), load
	p.extraSteps = min(2*p.extraSteps+1, maxExtraSteps)
}

// maxExtraSteps is the largest value of pause.extraSteps.
const maxExtraSteps = 3

// next takes the results of an epoch. It returns the number of channels for the next epoch and, if
// a trial has ended, the decision.
func (d *decider) next(now time.Time, e epoch) (use int, ended *Decision) {
	const share = 0.3 // weight of the newest epoch in the average
	d.load += share * (float64(e.inFlight) - d.load)
	if t := d.trial; t != nil {
		if cost, ok := e.meanCost(); ok {
			t.add(cost)
		} else if t.empty++; t.empty > maxPairs { // no more calls are made
			d.trial = nil
			return d.size, nil
		}
		if ended = t.verdict(); ended != nil {
			d.finishTrial(now, ended)
		}
	}
	if _, ok := e.meanCost(); d.trial == nil && ok {
		d.startTrial(now)
	}
	return d.inUse(), ended
}

// inUse returns the number of channels to which new calls go.
func (d *decider) inUse() int {
	if d.trial != nil {
		return d.trial.channels()
	}
	return d.size
}

// open returns the number of channels that should be open.
func (d *decider) open() int {
	if d.trial != nil {
		return d.trial.large
	}
	return d.size
}

// startTrial starts a trial of more or fewer channels if no pause forbids it. More channels can
// help only if there are more calls in flight than channels.
func (d *decider) startTrial(now time.Time) {
	step := max(1, d.size/2)
	switch {
	case d.size < d.max && d.load > float64(d.size)+0.5 && d.up.over(now, d.load > d.up.load*loadChange):
		d.trial = &trial{small: d.size, large: min(d.size+step*(1+d.up.extraSteps), d.max), grows: true}
	case d.size > d.min && d.down.over(now, d.load < d.down.load/loadChange):
		d.trial = &trial{small: max(d.size-step, d.min), large: d.size}
	}
}

func (d *decider) finishTrial(now time.Time, ended *Decision) {
	t := d.trial
	d.trial = nil
	d.size = ended.To
	switch {
	case ended.To == ended.From && t.grows:
		d.up.lengthen(now, d.load)
	case ended.To == ended.From:
		d.down.lengthen(now, d.load)
	case t.grows: // do not try fewer channels immediately
		d.up = pause{load: d.load, wait: d.up.wait}
		d.down = pause{until: now.Add(firstWait), load: d.load, wait: firstWait}
	default:
		d.up.lengthen(now, d.load)
	}
	ended.At = now
}

// giveUp ends a trial that cannot go on, for instance because a channel cannot be opened.
func (d *decider) giveUp(now time.Time) {
	if d.trial != nil {
		d.trial = nil
		d.up.lengthen(now, d.load)
	}
}

// A Decision is the result of a trial.
type Decision struct {
	At       time.Time
	From, To int     // numbers of channels before and after the trial
	Gain     float64 // how much faster calls are with more channels: 0.1 means 10 %
	Pairs    int     // pairs of epochs that were compared
	Why      string
}

// A trial compares a small and a large number of channels. It changes between the two numbers,
// because the load itself varies.
type trial struct {
	small, large int
	grows        bool // the small number was in use before the trial
	warm         bool // the first epoch with the large number is over; it does not count
	costs        []float64
	empty        int // number of epochs without enough calls
}

// turnOrder is the order of a trial's numbers: small, large, large, small. true means large.
var turnOrder = [4]bool{false, true, true, false}

func (t *trial) channels() int {
	if !t.warm || turnOrder[len(t.costs)%len(turnOrder)] {
		return t.large
	}
	return t.small
}

// add adds the result of an epoch.
func (t *trial) add(cost float64) {
	if !t.warm { // the first epoch opens connections, and windows grow in it
		t.warm = true
		return
	}
	t.costs = append(t.costs, cost)
}

// gain returns the mean gain over pairs of epochs, and the standard error of that mean. The gain of
// a pair is log(small/large), where small and large are a call's mean times with these numbers.
func (t *trial) gain() (mean, err float64, pairs int) {
	var sum, squares float64
	for i := 0; i+1 < len(t.costs); i += 2 {
		g := math.Log(t.costs[i] / t.costs[i+1])
		if turnOrder[i%len(turnOrder)] {
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

// verdict returns the decision, or nil if the trial must continue.
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
	case pairs >= 2 && mean < -maxLoss:
		d.Why = fmt.Sprintf("calls were slower with %d channels", t.large)
	case pairs < minPairs:
		return nil
	case mean > minGain && mean > minStandardErrors*err:
		d.To = t.large
		d.Why = fmt.Sprintf("calls were faster with %d channels", t.large)
	case mean+minStandardErrors*err < minGain, pairs >= maxPairs/2 && mean < minGain/2, pairs >= maxPairs:
		d.Why = fmt.Sprintf("calls were not measurably faster with %d channels", t.large)
	default:
		return nil
	}
	return d
}
