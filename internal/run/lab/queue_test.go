package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// neighbour is another program on a machine of two CPUs: it burns one of them for a while
// in every period, beside what is always taken.
type neighbour struct {
	burns, period time.Duration
	phase         time.Duration // of the period, at the beginning
	always        float64
}

// takes is the share of the machine's CPU time that it takes between two instants.
func (n neighbour) takes(from, to time.Duration) float64 {
	const slices = 40
	burning := 0
	for i := range slices {
		at := from + (to-from)*time.Duration(2*i+1)/(2*slices) + n.phase
		if n.period > 0 && at%n.period < n.burns {
			burning++
		}
	}
	return n.always + 0.5*float64(burning)/slices
}

// A simulation is a run without processes.
type simulation struct {
	neighbour neighbour
	spoils    func(measurement) bool
	patience  Patience
	took      []time.Duration // each trial
}

// measurement is one of a trial in a simulation.
type measurement struct {
	trial int
	from  time.Duration // since the run began
	taken float64       // by others
}

// quick is a simulated run of trials as long as those of a study with --quick. A trial is
// spoiled where others took more than a tenth of the CPU time.
func quick(random *rand.Rand, trials int, n neighbour) simulation {
	s := simulation{neighbour: n, spoils: func(m measurement) bool { return m.taken > 0.1 }, patience: DefaultPatience}
	if n.period > 0 {
		s.neighbour.phase = time.Duration(random.Int64N(int64(n.period)))
	}
	for range trials {
		s.took = append(s.took, 500*time.Millisecond+time.Duration(random.IntN(500))*time.Millisecond)
	}
	return s
}

// quietly returns how long the run takes without neighbours.
func (s simulation) quietly() (whole time.Duration) {
	for _, took := range s.took {
		whole += took
	}
	return whole
}

// A simulated holds the outcome of a simulation.
type simulated struct {
	first    []int // trials in the order in which they were first measured
	repeats  int
	refused  []int
	recorded map[int]int // how often each trial was recorded
	whole    time.Duration
	queue    *trialQueue
}

func (s simulation) run() simulated {
	q := &trialQueue{patience: s.patience, rest: minRest, pause: maxPause}
	for trial := range s.took {
		q.planned = append(q.planned, trial)
	}
	out := simulated{recorded: map[int]int{}, queue: q}
	for begin := time.Unix(0, 0); ; {
		switch next := q.nextStep(begin.Add(out.whole)); next.do {
		case measurePlanned, repeatSetBack:
			from := out.whole
			out.whole += s.took[next.trial]
			taken := s.neighbour.takes(from, out.whole)
			r := &record.Record{Trial: next.trial, TookNS: int64(s.took[next.trial]), Host: record.HostState{OthersShare: &taken}}
			if last := q.lastMeasurement(next.trial); last != nil {
				r.Attempts = make([]record.Attempt, len(last.Attempts)+1)
			}
			spoiled := s.spoils(measurement{next.trial, from, taken})
			q.noteTrialEnd(begin.Add(out.whole), r, spoiled)
			if next.do == repeatSetBack {
				out.repeats++
			} else {
				out.first = append(out.first, next.trial)
			}
			if !spoiled {
				out.recorded[next.trial]++
			}
		case watchMachine:
			from := out.whole
			out.whole += lookDuration
			q.noteLook(begin.Add(out.whole), s.neighbour.takes(from, out.whole))
		case recordAsSpoiled:
			q.removeTrial(next.trial)
			out.refused = append(out.refused, next.trial)
			out.recorded[next.trial]++
		case endRun:
			return out
		}
	}
}

// check checks what must hold of every run.
func (out simulated) check(t *testing.T, s simulation) {
	t.Helper()
	if !slices.IsSorted(out.first) || len(out.first) != len(s.took) {
		t.Errorf("the plan was measured in the order %v", out.first)
	}
	for trial := range s.took {
		if out.recorded[trial] != 1 {
			t.Errorf("trial %d was recorded %d times", trial, out.recorded[trial])
		}
	}
	over := out.queue.used - s.patience.allowedTime(out.queue.onPlan)
	if longest := slices.Max(s.took); over > longest {
		t.Errorf("%v beyond the patience, more than one trial of %v", over, longest)
	}
}

func TestTheQueueOutwaitsNeighbours(t *testing.T) {
	const runs = 100
	for _, c := range []struct {
		name      string
		neighbour neighbour
		trials    int
		refused   int     // runs with a trial refused, at most
		longer    float64 // than a quiet run, at most, in the mean
	}{
		{"nobody", neighbour{}, 140, 0, 1.0001},
		{"nobody takes more than the judge allows", neighbour{always: 0.09}, 140, 0, 1.0001},
		{"2 s in 10", neighbour{burns: 2 * time.Second, period: 10 * time.Second}, 140, 0, 1.4},
		{"2 s in 10, and 5 % always", neighbour{burns: 2 * time.Second, period: 10 * time.Second, always: 0.05}, 140, 0, 1.4},
		{"2 s in 10, six trials", neighbour{burns: 2 * time.Second, period: 10 * time.Second}, 6, 0, 1.4},
		{"1 s in 10", neighbour{burns: time.Second, period: 10 * time.Second}, 140, 0, 1.25},
		{"10 s in 100", neighbour{burns: 10 * time.Second, period: 100 * time.Second}, 140, 0, 1.25},
	} {
		random := rand.New(rand.NewPCG(1, 1))
		refused, longer := 0, 0.0
		for range runs {
			s := quick(random, c.trials, c.neighbour)
			out := s.run()
			out.check(t, s)
			if len(out.refused) > 0 {
				refused++
			}
			longer += float64(out.whole) / float64(s.quietly()) / runs
		}
		t.Logf("%s: %d of %d runs with a trial refused, %.2f times as long as a quiet one", c.name, refused, runs, longer)
		if refused > c.refused || longer > c.longer {
			t.Errorf("%s: %d of %d runs with a trial refused, %.2f times as long as a quiet one; want at most %d, %.2f", c.name, refused, runs, longer, c.refused, c.longer)
		}
	}
}

// Where no moment is quiet the patience ends, and soon there are few repeats.
func TestTheQueueGivesUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := quick(random, 100, neighbour{always: 0.5})
	out := s.run()
	out.check(t, s)
	if len(out.refused) != 100 || out.repeats < 2 || out.repeats > 8 {
		t.Errorf("%d refused after %d repeats, want all after a few", len(out.refused), out.repeats)
	}
	s.patience = Patience{}
	if out := s.run(); out.repeats != 0 || out.queue.used != 0 || len(out.refused) != 100 {
		t.Errorf("without patience: %d repeats, %v spent on them", out.repeats, out.queue.used)
	}
}

// A machine that is never quiet may let trials pass all the same.
func TestTheQueueDoesNotInsistOnQuiet(t *testing.T) {
	q := &trialQueue{planned: []int{0}, patience: DefaultPatience, rest: minRest, pause: maxPause}
	now, loud := time.Unix(0, 0), 0.4
	r := &record.Record{TookNS: int64(time.Second), Host: record.HostState{OthersShare: &loud}}
	q.noteTrialEnd(now, r, true)
	for looks := 0; ; looks++ {
		next := q.nextStep(now)
		if next.do == repeatSetBack {
			if waited := now.Sub(time.Unix(0, 0)); waited != restsWithoutQuiet*minRest {
				t.Errorf("the repeat came after %v", waited)
			}
			break
		}
		if next.do != watchMachine || looks > 1000 {
			t.Fatalf("the queue does %v after %d looks", next, looks)
		}
		now = now.Add(lookDuration)
		q.noteLook(now, loud)
	}
}

// What is unknown does not make a run wait for ever, or without a pause.
func TestTheQueueOnAMachineThatTellsNothing(t *testing.T) {
	q := &trialQueue{planned: []int{0}, patience: DefaultPatience, rest: minRest, pause: maxPause}
	now := time.Unix(0, 0)
	q.noteTrialEnd(now, &record.Record{TookNS: int64(time.Second)}, true)
	if next := q.nextStep(now); next.do != watchMachine {
		t.Errorf("at once: %v, want a look", next)
	}
	if next := q.nextStep(now.Add(minRest)); next.do != repeatSetBack {
		t.Errorf("after a rest: %v, want a repeat", next)
	}
}

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		patience      Patience
		planned, want time.Duration
	}{
		{Patience{}, time.Hour, 0},
		{Patience{Time: time.Minute}, 0, time.Minute},
		{Patience{Time: time.Minute}, time.Hour, time.Minute},
		{Patience{Share: 0.25}, 3 * time.Minute, time.Minute}, // of the four minutes in all
		{DefaultPatience, time.Minute, 30 * time.Second},
	} {
		if got := c.patience.allowedTime(c.planned); got.Round(time.Millisecond) != c.want {
			t.Errorf("%+v after %v: %v, want %v", c.patience, c.planned, got, c.want)
		}
	}
}

// A trial that spoils itself is repeated ever more rarely, though others pass.
func TestTheQueueBacksOff(t *testing.T) {
	q := &trialQueue{patience: Patience{Time: time.Hour}, rest: minRest, pause: maxPause}
	for trial := range 1000 {
		q.planned = append(q.planned, trial)
	}
	now, repeats := time.Unix(0, 0), 0
	for next := q.nextStep(now); len(q.planned) > 0; next = q.nextStep(now) {
		now = now.Add(time.Second)
		q.noteTrialEnd(now, &record.Record{Trial: next.trial, TookNS: int64(time.Second)}, next.trial == 0)
		if next.do == repeatSetBack {
			repeats++
		}
	}
	if repeats < 10 || repeats > 40 {
		t.Errorf("it was repeated %d times among 1000 trials", repeats)
	}
}

// What is spoiled again waits for those that were spoiled once.
func TestTheQueueRepeatsFirstWhatWasThrownAwayLeastOften(t *testing.T) {
	q := &trialQueue{patience: DefaultPatience, rest: minRest, pause: maxPause}
	now := time.Unix(0, 0)
	for trial, thrownAway := range []int{2, 0, 1, 0} {
		q.noteTrialEnd(now, &record.Record{Trial: trial, Attempts: make([]record.Attempt, thrownAway)}, true)
	}
	var order []int
	for len(q.back) > 0 {
		now = now.Add(maxRest)
		next := q.nextStep(now)
		order = append(order, next.trial)
		q.noteTrialEnd(now, &record.Record{Trial: next.trial}, false)
	}
	if !slices.Equal(order, []int{1, 3, 2, 0}) {
		t.Errorf("repeated in the order %v", order)
	}
}

// Nearly all of the run's time, or nearly the longest time, is much and not none.
func TestPatienceIsNeverNegative(t *testing.T) {
	for _, p := range []Patience{{Share: 1 - 1e-15}, {Time: math.MaxInt64, Share: 0.5}} {
		if got := p.allowedTime(24 * time.Hour); got < 365*24*time.Hour {
			t.Errorf("%+v comes to %v after a day", p, got)
		}
	}
}
