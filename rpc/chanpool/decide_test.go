package chanpool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// world simulates a service: takes returns a call's duration for a number of channels and callers.
type world struct {
	callers func(at time.Duration) int
	takes   func(channels, callers int) time.Duration
	noise   float64 // of an epoch's mean, as a share
}

// onFewCPUs is 2 CPUs and a loopback: each channel more makes batches smaller.
func onFewCPUs(channels, callers int) time.Duration {
	return time.Duration(float64(callers) * 40 * (1 + 0.06*float64(channels-1)) * float64(time.Microsecond))
}

// gainsAnEighth is a service that gains a little from each channel up to four.
func gainsAnEighth(channels, callers int) time.Duration {
	share := []float64{1, 0.94, 0.9, 0.87}[min(channels, 4)-1] + 0.01*float64(max(0, channels-4))
	return time.Duration(float64(callers) * 30 * share * float64(time.Microsecond))
}

// withCeiling simulates a link whose connections carry at most ceiling calls at once.
func withCeiling(ceiling int) func(int, int) time.Duration {
	return func(channels, callers int) time.Duration {
		rounds := math.Ceil(float64(callers) / float64(channels*ceiling))
		return time.Duration(rounds * float64(5*time.Millisecond))
	}
}

func always(n int) func(time.Duration) int { return func(time.Duration) int { return n } }

// course records what a decider did in a world.
type course struct {
	ends     int           // its size at the end
	lost     float64       // calls, as a share of those with the best size at each time
	trials   int           // that ended
	lastTime time.Duration // at which the size changed
}

func (w world) live(seed uint64, d decider, length time.Duration) (c course) {
	random := rand.New(rand.NewPCG(seed, 1))
	zero := time.Unix(0, 0)
	var done, best float64
	use := d.size
	for at := time.Duration(0); at < length; {
		callers := w.callers(at)
		took := 50 * time.Millisecond
		e := epoch{took: took, inFlight: int64(callers)}
		if callers > 0 {
			mean := float64(w.takes(use, callers)) * math.Exp(w.noise*random.NormFloat64())
			took = max(took, time.Duration(10*mean))
			e.took = took
			e.calls = int64(float64(took) / mean * float64(callers))
			e.latency = time.Duration(mean * float64(e.calls))
			done += float64(took) / float64(w.takes(use, callers))
			fastest := math.Inf(1)
			for n := d.min; n <= d.max; n++ {
				fastest = min(fastest, float64(w.takes(n, callers)))
			}
			best += float64(took) / fastest
		}
		at += took
		before := d.size
		var ended *Decision
		use, ended = d.next(zero.Add(at), e)
		if ended != nil {
			c.trials++
		}
		if d.size != before {
			c.lastTime = at
		}
	}
	c.ends, c.lost = d.size, 1-done/best
	return c
}

func TestWorlds(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name     string
		world    world
		starts   int
		from, to int     // that the size may be at the end
		maxLost  float64 // of all calls, trials included
		maxTries int
	}{
		{"one caller", world{always(1), onFewCPUs, 0.1}, 1, 1, 1, 0, 0},
		{"few CPUs", world{always(48), onFewCPUs, 0.12}, 1, 1, 1, 0.05, 12},
		{"few CPUs, begun with many", world{always(48), onFewCPUs, 0.12}, 8, 1, 1, 0.05, 20},
		{"a ceiling of 100, 200 callers", world{always(200), withCeiling(100), 0.12}, 1, 2, 3, 0.06, 35},
		{"a ceiling of 10, 48 callers", world{always(48), withCeiling(10), 0.12}, 1, 5, 8, 0.1, 40},
		{"four gain an eighth", world{always(200), gainsAnEighth, 0.07}, 1, 2, 16, 0.08, 40},
		{"no difference", world{always(16), func(_, callers int) time.Duration { return time.Duration(callers) * 50 * time.Microsecond }, 0.15}, 1, 1, 2, 0.001, 20},
		{"bursts", world{func(at time.Duration) int {
			if at/time.Second%10 < 8 {
				return 0
			}
			return 100
		}, onFewCPUs, 0.15}, 1, 1, 1, 0.1, 60},
		{"half-way from few CPUs to a ceiling", world{func(at time.Duration) int {
			if at < minute {
				return 20
			}
			return 200
		}, func(channels, callers int) time.Duration {
			if callers == 20 {
				return onFewCPUs(channels, callers)
			}
			return withCeiling(100)(channels, callers)
		}, 0.12}, 1, 2, 3, 0.06, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := 0
			for seed := range uint64(40) {
				got := c.world.live(seed, decider{min: 1, max: 16, size: c.starts}, 2*minute)
				if got.ends < c.from || got.ends > c.to || got.lost > c.maxLost {
					wrong++
					t.Logf("seed %d: %+v", seed, got)
				}
				if got.trials > c.maxTries {
					t.Errorf("seed %d: %d trials in two minutes", seed, got.trials)
				}
			}
			if wrong > 2 { // chance is part of it
				t.Errorf("%d of 40 ended outside of %d to %d channels, or lost more than %g of the calls", wrong, c.from, c.to, c.maxLost)
			}
		})
	}
}

// A trial whose calls cease is given up, and one whose channel cannot be opened too.
func TestTrialsThatCannotGoOn(t *testing.T) {
	now := time.Unix(0, 0)
	busy := epoch{took: 50 * time.Millisecond, calls: 1000, latency: time.Second, inFlight: 20}
	d := decider{min: 1, max: 4, size: 1}
	if use, _ := d.next(now, busy); use != 2 || d.open() != 2 {
		t.Fatalf("%d channels with 20 callers, want a trial of 2", use)
	}
	for range maxPairs + 1 {
		d.next(now, epoch{took: time.Second})
	}
	if d.trial != nil || d.open() != 1 {
		t.Errorf("the trial goes on without calls: %+v", d.trial)
	}
	d.load = 20
	d.next(now, busy)
	if d.giveUp(now); d.trial != nil || d.inUse() != 1 {
		t.Errorf("a trial that was given up goes on: %+v", d.trial)
	}
	if use, _ := d.next(now.Add(firstWait/2), busy); use != 1 {
		t.Error("it was tried again at once")
	}
}
