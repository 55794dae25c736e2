package insight

import (
	"math"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/data/record"
)

var tailStages = []string{"client: encode", "server: run queue", "client: collector", "server: collector", "handler"}

// tailPass3000 returns a pass of 3,000 calls. call returns the stages of a call in microseconds.
func tailPass3000(call func(i int) []int64) *record.Record {
	life := &record.Life{Stages: tailStages}
	for i := range 3000 {
		ns := call(i)
		for stage := range ns {
			ns[stage] *= 1000
		}
		life.Calls = append(life.Calls, ns)
	}
	return &record.Record{Probe: record.ProbeLife, Life: life}
}

// stalledCall has a stall in every 100th call: 60 % of it in the run queue, 30 % in the two
// collectors, 10 % in the handler.
func stalledCall(i int) []int64 {
	if i%100 == 7 {
		return []int64{10, 20 + 600, 5 + 120, 5 + 180, 40 + 100}
	}
	return []int64{10, 20, 5, 5, 40}
}

// TestTailFindsAPlantedStall wants the exact shares of stages that were put into every 100th call.
func TestTailFindsAPlantedStall(t *testing.T) {
	tail := newTail([]*record.Record{tailPass3000(stalledCall), tailPass3000(stalledCall), tailPass3000(stalledCall)})
	if tail.Calls != 9000 || tail.SlowCalls != 90 || tail.MedianCalls != 1800 || tail.Median != 80 || tail.Slow != 1080 || tail.Refused != "" {
		t.Fatalf("tail: %+v", tail)
	}
	for i, want := range []float64{0, 0.6, 0.12, 0.18, 0.1} {
		s := tail.Stages[i]
		if s.Name != tailStages[i] || !near(s.Share, want) || !near(s.Variance, want) || !near(s.Excess, 1000*want) || !near(s.Interval.High-s.Interval.Low, 0) {
			t.Errorf("%s: %+v, want a share of %v", tailStages[i], s, want)
		}
	}
	want := []Cause{{Kind: ByRunQueue, End: ServerEnd, Share: 0.6}, {Kind: ByCollector, Share: 0.3}, {Kind: ByHandler, End: ServerEnd, Share: 0.1}}
	if len(tail.Causes) != len(want) {
		t.Fatalf("causes: %+v", tail.Causes)
	}
	for i, c := range tail.Causes {
		if c.Kind != want[i].Kind || c.End != want[i].End || !near(c.Share, want[i].Share) || !near(c.Time, 1000*want[i].Share) || !tail.Proves(c) {
			t.Errorf("cause %+v, want %+v", c, want[i])
		}
	}
	if tail.EveryCalls == nil || *tail.EveryCalls != 100 || tail.Every != nil {
		t.Errorf("every %v calls, every %v µs", tail.EveryCalls, tail.Every)
	}
}

// TestTailStagesAddUp wants the stages of slow and of median calls to add up to the calls' times, and
// both kinds of shares to 1, whatever the calls are.
func TestTailStagesAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noisy := func(int) []int64 {
		call := make([]int64, len(tailStages))
		for i := range call {
			call[i] = int64(50 * math.Exp(2*random.NormFloat64()))
		}
		return call
	}
	for _, passes := range [][]*record.Record{{tailPass3000(noisy)}, {tailPass3000(noisy), tailPass3000(noisy), tailPass3000(stalledCall)}} {
		tail := newTail(passes)
		var slow, median, excess, share, variance float64
		for _, s := range tail.Stages {
			slow, median, excess = slow+s.Slow, median+s.Median, excess+s.Excess
			share, variance = share+s.Share, variance+s.Variance
		}
		if !near(slow, tail.Slow) || !near(median, tail.Median) || !near(excess, tail.Slow-tail.Median) || !near(share, 1) || !near(variance, 1) {
			t.Errorf("stages add up to %v and %v of %v and %v, and their shares to %v and %v", slow, median, tail.Slow, tail.Median, share, variance)
		}
		// By the record: the groups' times are times of whole calls.
		fastest, slowest := math.Inf(1), 0.0
		for _, p := range passes {
			for _, call := range p.Life.Calls {
				fastest, slowest = min(fastest, float64(sumOf(call))/1e3), max(slowest, float64(sumOf(call))/1e3)
			}
		}
		if tail.Median < fastest || tail.Slow > slowest || tail.Slow < tail.Median {
			t.Errorf("median calls take %v µs and slow calls %v µs, all calls %v to %v µs", tail.Median, tail.Slow, fastest, slowest)
		}
	}
}

// TestTailWithoutCause wants no proven share of 30 % where each stage varies as much as the others.
func TestTailWithoutCause(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	alike := func(int) []int64 {
		call := make([]int64, len(tailStages))
		for i := range call {
			call[i] = int64(1000 + 300*random.Float64())
		}
		return call
	}
	tail := newTail([]*record.Record{tailPass3000(alike)})
	for _, s := range tail.Stages {
		if math.Abs(s.Share-0.2) > 0.05 || math.Abs(s.Variance-0.2) > 0.05 || !(s.Interval.Low < 0.2 && s.Interval.High > 0.2) {
			t.Errorf("%s: %+v %+v, want a share of 0.2", s.Name, s, s.Interval)
		}
	}
	if tail.EveryCalls != nil || tail.Every != nil {
		t.Errorf("random calls are slow every %v calls, every %v µs", tail.EveryCalls, tail.Every)
	}
	same := newTail([]*record.Record{tailPass3000(func(int) []int64 { return []int64{1, 1, 1, 1, 1} })})
	if same.Refused != "all calls take the same time" || len(same.Stages) > 0 {
		t.Errorf("equal calls: %+v", same)
	}
}

// TestTailIgnoresSlowPasses wants the same causes where all calls of a pass are slower in a stage that
// has nothing to do with the slow calls.
func TestTailIgnoresSlowPasses(t *testing.T) {
	slower := tailPass3000(func(i int) []int64 {
		call := stalledCall(i)
		call[0] += 5000
		return call
	})
	for _, passes := range [][]*record.Record{{tailPass3000(stalledCall), slower}, {slower, tailPass3000(stalledCall), slower}} {
		tail := newTail(passes)
		if encode := tail.Stages[0]; !near(encode.Share, 0) || !near(encode.Variance, 0) {
			t.Errorf("a slow pass gives its stage the shares %v and %v", encode.Share, encode.Variance)
		}
		if tail.Causes[0].Kind != ByRunQueue || !near(tail.Causes[0].Share, 0.6) {
			t.Errorf("causes: %+v", tail.Causes)
		}
	}
	// The slowest 10 of these calls cannot come from all passes in equal numbers.
	few := []*record.Record{tailPass3000(stalledCall), slower, tailPass3000(stalledCall)}
	for i, p := range few {
		few[i] = &record.Record{Life: &record.Life{Stages: tailStages, Calls: p.Life.Calls[:108]}}
	}
	if tail := newTail(few); tail.SlowCalls != 10 || !near(tail.Stages[0].Excess, 0) || !near(tail.Stages[0].Share, 0) {
		t.Errorf("of 324 calls: %+v", tail)
	}
}

// TestTailShareVariesBetweenPasses wants an interval that includes 0 where only one pass of three has
// the cause.
func TestTailShareVariesBetweenPasses(t *testing.T) {
	stallIn := func(stage int) *record.Record {
		return tailPass3000(func(i int) []int64 {
			call := []int64{10, 20, 5, 5, 40}
			if i%100 == 0 {
				call[stage] += 1000
			}
			return call
		})
	}
	tail := newTail([]*record.Record{stallIn(0), stallIn(1), stallIn(4)})
	for _, c := range tail.Causes {
		if !near(c.Share, 1.0/3) || tail.Proves(c) {
			t.Errorf("proves %+v", c)
		}
	}
	if s := tail.Stages[1]; s.Interval.Low > 0 || s.Interval.High < 1.0/3 {
		t.Errorf("run queue: %+v", s)
	}
	same := newTail([]*record.Record{stallIn(1), stallIn(1), stallIn(1)})
	if c := same.Causes[0]; len(same.Causes) != 1 || c.Kind != ByRunQueue || !near(c.Share, 1) || !same.Proves(c) {
		t.Errorf("causes: %+v", same.Causes)
	}
}

// TestTailWeighsPassesByCalls wants each slow call to have the same weight.
func TestTailWeighsPassesByCalls(t *testing.T) {
	small := tailPass3000(func(i int) []int64 {
		call := []int64{10, 20, 5, 5, 40}
		if i%100 == 7 {
			call[4] += 1000
		}
		return call
	})
	small.Life.Calls = small.Life.Calls[:1000]
	tail := newTail([]*record.Record{tailPass3000(stalledCall), small})
	if queue, handler := tail.Stages[1], tail.Stages[4]; tail.SlowCalls != 40 || !near(queue.Share, 0.6*0.75) || !near(queue.Excess, 450) || !near(handler.Share, 0.75*0.1+0.25) {
		t.Errorf("%d slow calls; run queue %+v, handler %+v", tail.SlowCalls, queue, handler)
	}
}

// TestTailIntervalsCover wants 95 % intervals to contain a planted share of 0.5 in about 95 % of the
// experiments, whether passes or calls are the independent values.
func TestTailIntervalsCover(t *testing.T) {
	const experiments = 100
	random := rand.New(rand.NewPCG(9, 10))
	for _, passes := range []int{1, 3} {
		covered := 0
		for range experiments {
			var records []*record.Record
			for range passes {
				life := &record.Life{Stages: []string{"server: run queue", "handler"}}
				for i := range 1000 {
					call := []int64{20_000 + random.Int64N(1000), 20_000 + random.Int64N(1000)}
					if i%100 == 0 {
						part := random.Float64()
						call[0], call[1] = call[0]+int64(1e6*part), call[1]+int64(1e6*(1-part))
					}
					life.Calls = append(life.Calls, call)
				}
				records = append(records, &record.Record{Life: life})
			}
			if i := newTail(records).Stages[0].Interval; i.Low <= 0.5 && 0.5 <= i.High {
				covered++
			}
		}
		if share := float64(covered) / experiments; share < 0.9 || share > 0.99 {
			t.Errorf("of %d passes, %.1f %% of the intervals contain the share, want about 95 %%", passes, 100*share)
		}
	}
}

// TestTailNeedsCalls refuses fewer than 200 calls, and says what to do.
func TestTailNeedsCalls(t *testing.T) {
	pass := tailPass3000(stalledCall)
	pass.Life.Calls = pass.Life.Calls[:199]
	if tail := newTail([]*record.Record{pass}); tail.Refused != "only 199 calls have known stages: measure at least 200 (-n, --repeat)" || tail.Causes != nil {
		t.Errorf("of 199 calls: %+v", tail)
	}
	if tail := newTail([]*record.Record{{}}); tail != nil {
		t.Errorf("without calls: %+v", tail)
	}
}

// TestTailFindsThePeriod plants pauses in time that hit several calls in flight.
func TestTailFindsThePeriod(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pass := tailPass3000(func(i int) []int64 { return []int64{10, 20, 5, 5, 40} })
	for i := range pass.Life.Calls {
		begin := int64(i)*70_000 + random.Int64N(60_000)
		pass.Life.Begins = append(pass.Life.Begins, begin)
		if in := begin % 10_000_000; in < 500_000 { // a pause of 0.5 ms every 10 ms
			pass.Life.Calls[i][1] += 900_000 - in
		}
	}
	tail := newTail([]*record.Record{pass})
	if tail.Every == nil || math.Abs(*tail.Every-10_000) > 1000 || tail.EveryCalls != nil {
		t.Errorf("every %v calls, every %v µs", tail.EveryCalls, tail.Every)
	}
	at := rand.New(rand.NewPCG(7, 8))
	tail = newTail([]*record.Record{tailPass3000(func(int) []int64 {
		if at.IntN(100) == 0 {
			return []int64{10, 900, 5, 5, 40}
		}
		return []int64{10, 20, 5, 5, 40}
	})})
	if tail.EveryCalls != nil {
		t.Errorf("every %d calls, where chance decides", *tail.EveryCalls)
	}
}

// TestStagesHaveCauses names the kind, the end and the cause of each stage that package life has.
func TestStagesHaveCauses(t *testing.T) {
	for _, want := range []struct {
		stage, kind, end string
		cause            CauseKind
	}{
		{"client: encode", "user", ClientEnd, ByProtocol},
		{"client: run queue", "scheduling", ClientEnd, ByRunQueue},
		{"client: collector", "collector", ClientEnd, ByCollector},
		{"client: wait for lock", "waiting", ClientEnd, ByLock},
		{"client: wait for window", "waiting", ClientEnd, ByWindow},
		{"client: wait", "waiting", ClientEnd, other},
		{"send request", "kernel", ClientEnd, ByPackets},
		{"wake server", "waking", ServerEnd, ByWaking},
		{"server: schedule", "scheduling", ServerEnd, ByWaking},
		{"receive request", "kernel", ServerEnd, ByPackets},
		{"server: socket queue", "waiting", ServerEnd, ByConnection},
		{"server: run queue", "scheduling", ServerEnd, ByRunQueue},
		{"server: collector", "collector", ServerEnd, ByCollector},
		{"server: decode", "user", ServerEnd, ByProtocol},
		{"handler", "handler", ServerEnd, ByHandler},
		{"handler: wait for lock", "waiting", ServerEnd, ByLock},
		{"handler: wait", "waiting", ServerEnd, ByHandlerWait},
		{"service: waits", "waiting", ServerEnd, ByHandlerWait},
		{"service: runs", "handler", ServerEnd, ByHandler},
		{"service and wire", "mixed", "", other},
		{"server: no CPU", "scheduling", ServerEnd, ByNeighbour},
		{"send answer", "kernel", ServerEnd, ByPackets},
		{"wake client", "waking", ClientEnd, ByWaking},
		{"receive answer", "kernel", ClientEnd, ByPackets},
		{"client: socket queue", "waiting", ClientEnd, ByConnection},
		{"client: no CPU", "scheduling", ClientEnd, ByNeighbour},
		{"transfer request", "kernel", "", ByPackets},
		{"server: other calls", "waiting", ServerEnd, ByHeadOfLine},
		{"request", "mixed", "", other},
		{"answer", "mixed", "", other},
	} {
		cause, end, _ := kindOfStage(want.stage)
		if kind := kindOf(want.stage); kind != want.kind || end != want.end || cause != want.cause {
			t.Errorf("%s is of kind %q at the %q by %q, want %+v", want.stage, kind, end, cause, want)
		}
	}
}
