package check

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

func TestGapsAreJudgedByWhatTheyDo(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*record.Record)
		check string
		level record.Level
		says  string
	}{
		{"a burst that is in the latencies", func(r *record.Record) {
			r.Service = tailedBy(t, 40_000, 500, 100*time.Microsecond, 20*time.Millisecond)
			r.InFlight, r.Client.UserNS, r.Cell.Clients, r.Active = 13.9, nil, 14, 14
			r.Cell.Load.RequestsPerClient, r.Connections.Want, r.Connections.Opened = 1, 14, 14
			r.Server.Gaps.Lengths, r.Server.Gaps.LongestNS = []record.GapLength{{Count: 36, SumNS: 36 * 20e6}}, 20e6
		}, "gaps", record.Invalid, "other programs kept the server off its CPUs for 72 % of the time, each time for at most 20 ms: P99 may be up to 200 times"},
		{"gaps that no latency shows", func(r *record.Record) {
			r.Server.Gaps.Lengths = []record.GapLength{{Count: 2, SumNS: 2e6}}
		}, "gaps", record.OK, "this changes the mean and P99 by less than 1 %"},
		{"an end that nobody watched", func(r *record.Record) { r.Server.Gaps = nil }, "gaps", record.Unknown, "nothing watched"},
	} {
		r := sound(t)
		c.fault(r)
		wantCheckSays(t, c.name, r, c.check, c.level, c.says)
	}
}

// A pause of half of the window stops the four requests in flight, once.
func TestAPauseOfTheMachineIsFound(t *testing.T) {
	r := sound(t)
	stopped(t, r, &r.Client, 1, 1, 500e6)
	r.Client = sound(t).Client
	for _, end := range []*record.Process{&r.Client, &r.Server} {
		end.Gaps.Lengths, end.Gaps.LongestNS = []record.GapLength{{Count: 1, SumNS: 500e6}}, 500e6
	}
	wantOnly(t, "paused", r, "gaps", record.Invalid, "other programs kept the client off its CPUs for 50 % of the time, each time for at most 500 ms: the mean may be up to")
}

// tailedBy returns the distribution of count durations: some for the longer ones, most for
// the others.
func tailedBy(t *testing.T, count, longer int, most, some time.Duration) latency.Distribution {
	t.Helper()
	durations := make([]time.Duration, count)
	for i := range durations {
		if durations[i] = most; i < longer {
			durations[i] = some
		}
	}
	return distribution(t, durations)
}

func distribution(t *testing.T, durations []time.Duration) latency.Distribution {
	t.Helper()
	recorder := latency.NewRecorder()
	defer recorder.Close()
	for _, d := range durations {
		recorder.Record(int64(d))
	}
	d, err := latency.NewHistogram(recorder).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// neighbour is a process that takes the server's CPU for so long at a time.
type neighbour struct{ busy, idle time.Duration }

// world is a server with one CPU, and a neighbour on it.
type world struct {
	neighbour neighbour
	clients   int     // closed loop; or
	perSecond float64 // open loop
	seed      uint64
}

const simulatedWindow = 2 * time.Second

// gates are the times at which the neighbour has the CPU: begin and end, in order.
func (w world) gates(random *rand.Rand) [][2]time.Duration {
	var gates [][2]time.Duration
	if w.neighbour.busy == 0 {
		return nil
	}
	around := func(d time.Duration) time.Duration { return time.Duration(float64(d) * (0.5 + random.Float64())) }
	for at := around(w.neighbour.idle); at < simulatedWindow; {
		end := at + around(w.neighbour.busy)
		gates = append(gates, [2]time.Duration{at, end})
		at = end + around(w.neighbour.idle)
	}
	return gates
}

// work returns when work ends that begins at an instant and stands still in gates.
func work(begin, takes time.Duration, gates [][2]time.Duration) time.Duration {
	i, _ := slices.BinarySearchFunc(gates, begin, func(g [2]time.Duration, at time.Duration) int { return cmp.Compare(g[1], at+1) })
	for ; i < len(gates) && gates[i][0] < begin+takes; i++ {
		takes -= max(0, gates[i][0]-begin)
		begin = gates[i][1]
	}
	return begin + takes
}

// run returns the response times of all requests that began in the window.
func (w world) run(gates [][2]time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(w.seed, 1))
	takes := func() time.Duration { return time.Duration(80e3 * math.Exp(0.3*random.NormFloat64())) }
	var responses []time.Duration
	free := time.Duration(0)
	if w.perSecond > 0 {
		for at := time.Duration(0); ; {
			if at += time.Duration(random.ExpFloat64() / w.perSecond * 1e9); at >= simulatedWindow {
				return responses
			}
			free = work(max(at, free), takes(), gates)
			responses = append(responses, free-at)
		}
	}
	sent := make([]time.Duration, w.clients) // when each client sent; they are served in turn
	for {
		first := 0
		for i := range sent {
			if sent[i] < sent[first] {
				first = i
			}
		}
		at := sent[first]
		if at >= simulatedWindow {
			return responses
		}
		free = work(max(at, free), takes(), gates)
		responses = append(responses, free-at)
		sent[first] = free + 20*time.Microsecond // the client's own work
	}
}

// record returns the record of a trial in this world.
func (w world) record(t *testing.T, responses []time.Duration, gates [][2]time.Duration) *record.Record {
	t.Helper()
	random := rand.New(rand.NewPCG(w.seed, 2))
	seen := &record.Gaps{CPUs: 1}
	var lengths [64]record.GapLength
	for at := time.Duration(0); ; {
		at += 2*time.Millisecond + time.Duration(random.Int64N(4e6))
		if at >= simulatedWindow {
			break
		}
		seen.Wakings++
		ran := work(at, 1, gates)
		if gap := ran - at; gap > 50*time.Microsecond {
			octave := int(math.Log2(float64(gap)))
			lengths[octave].Count++
			lengths[octave].SumNS += int64(gap)
			seen.LongestNS = max(seen.LongestNS, int64(gap))
		}
		at = ran
	}
	for _, l := range lengths {
		if l.Count > 0 {
			seen.Lengths = append(seen.Lengths, l)
		}
	}
	sum := time.Duration(0)
	for _, r := range responses {
		sum += r
	}
	r := &record.Record{WindowNS: int64(simulatedWindow)}
	r.Service, r.Requests = distribution(t, responses), int64(len(responses))
	r.InFlight = float64(sum) / float64(simulatedWindow)
	r.Client.Gaps, r.Server.Gaps = &record.Gaps{CPUs: 1, Wakings: seen.Wakings}, seen
	r.Server.Busy = new(float64(len(responses)) * 80e3 / float64(simulatedWindow))
	if w.perSecond > 0 {
		r.Pacing = &record.Pacing{Scheduled: r.Requests}
	}
	return r
}

func meanAndP99(all []time.Duration) (mean, p99 float64) {
	all = slices.Sorted(slices.Values(all))
	for _, d := range all {
		mean += float64(d) / float64(len(all))
	}
	return mean, float64(all[len(all)*99/100])
}

// truth is by how much the neighbour moved the mean or P99, whichever it moved more.
func truth(quiet, disturbed []time.Duration) float64 {
	mean, p99 := meanAndP99(quiet)
	disturbedMean, disturbedP99 := meanAndP99(disturbed)
	return max(disturbedMean/mean, disturbedP99/p99) - 1
}

func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// In simulated worlds the truth is known. What moved a figure by half is not passed
// without a word, and what moved none by a twentieth is not refused. Nor does refusing
// choose: without their gaps, the trials that are kept are as slow as all.
func TestGapsTellWhatANeighbourDid(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates some hundred trials, which takes seconds")
	}
	const worlds = 30
	for _, n := range []neighbour{
		{},
		{busy: 20 * time.Millisecond, idle: 480 * time.Millisecond},
		{busy: 3 * time.Millisecond, idle: 57 * time.Millisecond},
		{busy: 500 * time.Microsecond, idle: 9500 * time.Microsecond},
		{busy: 3 * time.Millisecond, idle: 3 * time.Millisecond},
		{busy: time.Millisecond, idle: 400 * time.Millisecond},
	} {
		for _, w := range []world{{clients: 1}, {clients: 20}, {perSecond: 2000}, {perSecond: 8000}} {
			w.neighbour = n
			moved, refused, warned, missed, wrong := 0.0, 0, 0, 0, 0
			var kept, all []float64 // P99 of the quiet twins
			for seed := range uint64(worlds) {
				w.seed = seed
				gates := w.gates(rand.New(rand.NewPCG(seed, 3)))
				quiet, disturbed := w.run(nil), w.run(gates)
				is := truth(quiet, disturbed)
				moved += is / worlds
				level := trial{Record: w.record(t, disturbed, gates), limits: DefaultLimits()}.checkGaps().Level
				switch level {
				case record.Invalid:
					refused++
				case record.Warning:
					warned++
				}
				_, p99 := meanAndP99(quiet)
				if all = append(all, p99); level != record.Invalid {
					kept = append(kept, p99)
				}
				if is > 0.5 && level == record.OK {
					missed++
				}
				if is < 0.05 && level == record.Invalid {
					wrong++
				}
			}
			name := fmt.Sprintf("%v in %v, clients %d, rate %.0f", n.busy, n.busy+n.idle, w.clients, w.perSecond)
			t.Logf("%-40s moved by %6.2f: of %d refused %2d, warned %2d; missed %d, wrong %d", name, moved, worlds, refused, warned, missed, wrong)
			if chosen := average(kept)/average(all) - 1; len(kept) > 0 && math.Abs(chosen) > 0.03 {
				t.Errorf("%s: the quiet twins of the %d kept trials differ by %.3f from all", name, len(kept), chosen)
			}
			if missed > worlds/20 || wrong > worlds/30 {
				t.Errorf("%s: %d of %d missed, %d wrongly refused", name, missed, worlds, wrong)
			}
		}
	}
}
