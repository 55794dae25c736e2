package check

import (
	"math/rand/v2"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// A waitingWorld is a server with one CPU. A call sleeps for a timer, and then needs the CPU.
type waitingWorld struct {
	callers     int
	timer, work time.Duration
	neighbour   neighbour
	// threads is true if each call has a thread, so that threads of the server wait for each other.
	// Otherwise one thread serves all calls.
	threads bool
}

// run returns the times of all calls, the CPU time of the server, and how long its threads waited.
func (w waitingWorld) run(seed uint64, gates [][2]time.Duration) (took []time.Duration, cpu, waited time.Duration) {
	random := rand.New(rand.NewPCG(seed, 1))
	around := func(d time.Duration, by float64) time.Duration {
		return time.Duration(float64(d) * (1 - by + 2*by*random.Float64()))
	}
	sent, ready := make([]time.Duration, w.callers), make([]time.Duration, w.callers)
	send := func(i int, at time.Duration) { sent[i], ready[i] = at, at+around(w.timer, 0.02) }
	for i := range sent {
		send(i, around(w.work, 1))
	}
	free := time.Duration(0)
	for {
		first := 0
		for i := range ready {
			if ready[i] < ready[first] {
				first = i
			}
		}
		if sent[first] >= simulatedWindow {
			return took, cpu, waited
		}
		takes, begin := around(w.work, 0.3), max(ready[first], free)
		free = work(begin, takes, gates)
		cpu += takes
		waited += free - begin - takes
		if w.threads {
			waited += begin - ready[first]
		}
		took = append(took, free-sent[first])
		send(first, free+10*time.Microsecond)
	}
}

// record returns the record of a trial in this world.
func (w waitingWorld) record(t *testing.T, took []time.Duration, cpu, waited time.Duration, others float64) *record.Record {
	t.Helper()
	mean, _ := meanAndP99(took)
	r := &record.Record{WindowNS: int64(simulatedWindow)}
	r.Service, r.Requests, r.Completed = distribution(t, took), int64(len(took)), int64(len(took))
	r.InFlight = mean * float64(len(took)) / float64(simulatedWindow)
	r.Client.WaitedNS, r.Server.WaitedNS = new(int64(0)), new(int64(waited))
	r.Server.UserNS, r.Server.SystemNS, r.Server.CPUs = new(int64(cpu)), new(int64(0)), []int{1}
	r.Server.Busy, r.Host.OthersCPUs = new(float64(cpu)/float64(simulatedWindow)), &others
	return r
}

// In simulated worlds the shift of the mean is known. No mean that other programs moved by more than
// the limit is valid, and no mean that they moved by less than a twentieth is refused.
func TestWaitsBoundTheMean(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates some hundred trials, which takes seconds")
	}
	neighbours := []neighbour{
		{},
		{busy: 50 * time.Microsecond, idle: 450 * time.Microsecond},
		{busy: 500 * time.Microsecond, idle: 500 * time.Microsecond},
		{busy: 3 * time.Millisecond, idle: 3 * time.Millisecond},
		{busy: 3 * time.Millisecond, idle: 57 * time.Millisecond},
		{busy: 4 * time.Millisecond, idle: time.Millisecond},
	}
	refused, needless, trials := 0, 0, 0
	for _, callers := range []int{1, 4, 16, 64} {
		for _, timer := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
			for _, busy := range []time.Duration{20 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond} {
				for seed, n := range neighbours {
					w := waitingWorld{callers, timer, busy, n, seed%2 == 0}
					truth, made := w.judge(t, uint64(seed))
					trials++
					switch {
					case made.Level == record.Invalid:
						if refused++; truth < 0.05 {
							needless++
						}
					case truth > DefaultLimits().Moved.Invalid:
						t.Errorf("%+v: moved by %.2f, bounded by %.2f: %s", w, truth, *made.Figure, made.Detail)
					}
					t.Logf("%+v: moved by %.2f, bounded by %.2f, %s", w, truth, *made.Figure, made.Level)
				}
			}
		}
	}
	t.Logf("of %d trials, %d were refused, %d of them although they were moved by less than a twentieth", trials, refused, needless)
	if needless > 0 {
		t.Errorf("%d of %d trials were refused without a reason", needless, trials)
	}
}

// judge returns by how much the neighbour moved the mean, and what the check says.
func (w waitingWorld) judge(t *testing.T, seed uint64) (truth float64, made record.Check) {
	t.Helper()
	gates := world{neighbour: w.neighbour}.gates(rand.New(rand.NewPCG(seed, 3)))
	others := time.Duration(0)
	for _, g := range gates {
		others += min(g[1], simulatedWindow) - g[0]
	}
	quiet, _, _ := w.run(seed, nil)
	took, cpu, waited := w.run(seed, gates)
	before, _ := meanAndP99(quiet)
	after, _ := meanAndP99(took)
	r := w.record(t, took, cpu, waited, float64(others)/float64(simulatedWindow))
	return after/before - 1, trial{Record: r, limits: DefaultLimits()}.checkGaps()
}

// Threads of both ends wait for half of the time, most of it for each other. If all of it were the
// calls', they would take twice as long, but the fastest call took almost as long as the mean.
func TestATimerIsValidBesideOtherPrograms(t *testing.T) {
	lengths := make([]time.Duration, 3960)
	for i := range lengths {
		lengths[i] = time.Millisecond + time.Duration(i%20)*time.Microsecond
	}
	r := sound(t)
	r.Service, r.Requests, r.Completed = distribution(t, lengths), 3960, 3960
	r.Server.CPUs, r.Server.Busy, r.Server.Gaps = nil, nil, nil
	for _, end := range []*record.Process{&r.Client, &r.Server} {
		end.UserNS, end.SystemNS = new(int64(5e7)), new(int64(5e7))
	}
	r.Client.Busy = new(0.1)
	wait(r, r.WindowNS/2, 1)
	wantCheckSays(t, "a timer", r, "gaps", record.Warning, "waited for a CPU for 25")
	for i := range lengths {
		lengths[i] *= 2
	}
	r.Service, r.Requests, r.Completed = distribution(t, lengths[:90]), 90, 90
	wantCheckSays(t, "too few calls", r, "gaps", record.Invalid, "")
}
