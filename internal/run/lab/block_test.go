package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
)

// asBlocks puts all trials of a repeat into one block.
func asBlocks(plan []scenario.PlannedCell) []scenario.PlannedCell {
	for i := range plan {
		plan[i].Block = 1
	}
	return plan
}

// Trials of a block are alive together, never send at the same time, and measure their own delays.
func TestABlockTakesTurns(t *testing.T) {
	s := oneCell(t, "fake,fake:delay=2ms,fake:delay=4ms")
	s.Parts[0].Repeats = 2
	s.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(400 * time.Millisecond)}
	plan := asBlocks(s.Plan())
	run := create(t, s)
	if err := newLab(t).Run(t.Context(), plan, run); err != nil {
		t.Fatal(err)
	}
	delays := map[string]time.Duration{"fake": 0, "fake:delay=2ms": 2 * time.Millisecond, "fake:delay=4ms": 4 * time.Millisecond}
	blocks := map[int][]record.Record{}
	for _, r := range recordsOf(t, run) {
		if r.Failure != "" {
			t.Fatalf("%s: %s", r.Cell.Variant, r.Failure)
		}
		blocks[r.Block] = append(blocks[r.Block], r)
		if r.WindowNS != int64(400*time.Millisecond) || r.Pauses != 0 {
			t.Errorf("%s: a window of %v with %d pauses", r.Cell.Variant, time.Duration(r.WindowNS), r.Pauses)
		}
		if mean := time.Duration(r.Service.Sum / r.Service.Count); mean < delays[r.Cell.Variant] {
			t.Errorf("%s: a mean of %v", r.Cell.Variant, mean)
		}
		var requests int64
		for _, slice := range r.Slices {
			requests += slice.Requests
		}
		if requests != r.Requests || requests == 0 {
			t.Errorf("%s: %d requests in slices, %d in all", r.Cell.Variant, requests, r.Requests)
		}
	}
	if len(blocks) != 2 || blocks[0] != nil {
		t.Fatalf("%d blocks, want 2", len(blocks))
	}
	for number, members := range blocks {
		if len(members) != 3 || len(members[0].Slices) != len(members[1].Slices) || len(members[0].Slices) != len(members[2].Slices) {
			t.Errorf("block %d has %d members, with different numbers of slices", number, len(members))
		}
	}
}

// A trial of a block that fails leaves the machine to the others.
func TestABlockGoesOnWithoutAFailedTrial(t *testing.T) {
	s := oneCell(t, "fake,fake:delay=1ms,tcp")
	s.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(200 * time.Millisecond)}
	plan := asBlocks(s.Plan())
	l := newLab(t)
	l.Targets = map[string]string{"tcp": "127.0.0.1:1"} // nobody listens there
	run := create(t, s)
	if err := l.Run(t.Context(), plan, run); err != nil {
		t.Fatal(err)
	}
	for _, r := range recordsOf(t, run) {
		if fails := r.Cell.Variant == "tcp"; fails != (r.Failure != "") || fails == (len(r.Slices) > 0) {
			t.Errorf("%s: %q, with %d slices", r.Cell.Variant, r.Failure, len(r.Slices))
		}
	}
}

func TestSlicesAreMirrored(t *testing.T) {
	const trials, window = 3, 500 * time.Millisecond
	all, end := drawSlices(rand.New(rand.NewPCG(1, 2)), trials, window, turnTimes{mean: 100 * time.Microsecond}, 1000)
	type turn struct {
		load.Slice
		trial, round int
	}
	var turns []turn
	for trial, own := range all {
		var measured time.Duration
		for round, s := range own {
			turns = append(turns, turn{s, trial, round})
			measured += time.Duration(s.To - s.From)
		}
		if len(own)%2 != 0 || measured != window {
			t.Errorf("trial %d has %d slices of %v together", trial, len(own), measured)
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return int(a.Send - b.Send) })
	for i, one := range turns {
		if i > 0 && one.Send < turns[i-1].To+int64(time.Millisecond) {
			t.Errorf("slice %d begins before the one before has ended", i)
		}
		if one.round != i/trials {
			t.Errorf("slice %d is of round %d", i, one.round)
		}
		if mirror := turns[(i/(2*trials))*2*trials+2*trials-1-i%(2*trials)]; mirror.trial != one.trial {
			t.Errorf("slice %d is of trial %d, its mirror of %d", i, one.trial, mirror.trial)
		}
	}
	if last := turns[len(turns)-1]; last.To != end || turns[0].Send != 1000 {
		t.Errorf("the slices last from %d to %d, and the last ends at %d", turns[0].Send, end, last.To)
	}
	// Clients whose clocks are apart need longer run-ins and gaps, and longer slices.
	const apart = 300 * time.Microsecond
	far, end := drawSlices(rand.New(rand.NewPCG(1, 2)), 2, window, turnTimes{mean: 100 * time.Microsecond, apart: apart}, 0)
	between := slices.Concat(far...)
	slices.SortFunc(between, func(a, b load.Slice) int { return int(a.Send - b.Send) })
	for i, s := range between {
		if run := time.Duration(s.From - s.Send); run < shortestRunIn+apart || time.Duration(s.To-s.From) < time.Duration((1-2*slicesVary)*slicePerApart*float64(apart)) {
			t.Errorf("with clocks apart: slice %d lasts %v after %v", i, time.Duration(s.To-s.From), run)
		}
		if i > 0 && s.Send < between[i-1].To+int64(time.Millisecond+apart) {
			t.Errorf("with clocks apart: slice %d begins %v after the one before", i, time.Duration(s.Send-between[i-1].To))
		}
	}
	if whole, _ := drawSlices(rand.New(rand.NewPCG(1, 2)), 2, window, turnTimes{apart: 10 * time.Millisecond}, 0); len(whole[0]) != 1 || end != between[len(between)-1].To {
		t.Errorf("%d slices with clocks that are too far apart, want 1", len(whole[0]))
	}
	if long, _ := drawSlices(rand.New(rand.NewPCG(1, 2)), 2, window, turnTimes{mean: time.Second}, 0); len(long[0]) != 1 {
		t.Errorf("%d slices of long calls, want 1", len(long[0]))
	}
	if many, _ := drawSlices(rand.New(rand.NewPCG(1, 2)), 2, time.Hour, turnTimes{}, 0); len(many[0]) != load.MostSlices {
		t.Errorf("%d slices of a long window, want %d", len(many[0]), load.MostSlices)
	}
}

// A run with an anchor measures it before, between and after its trials, and its records do not
// contain it.
func TestARunReadsItsAnchor(t *testing.T) {
	takesSeconds(t)
	l, s := newLab(t), oneCell(t, "fake")
	l.Anchored = true
	run := create(t, s)
	if err := l.Run(t.Context(), s.Plan(), run); err != nil {
		t.Fatal(err)
	}
	before := len(run.Manifest.Anchor)
	l.ReadAnchor(t.Context(), run, 1)
	if all := len(run.Manifest.Anchor); before < 1 || all <= before || l.anchorTook < AnchorTime(1, 0) {
		t.Errorf("%d readings before the last trial, %d in all, in %v", before, all, l.anchorTook)
	}
	for _, r := range run.Manifest.Anchor {
		if !(r.MeanNS > 0) {
			t.Errorf("a mean of %v ns", r.MeanNS)
		}
	}
	for _, r := range recordsOf(t, run) {
		if r.Cell.Variant != "fake" {
			t.Errorf("a record of %s", r.Cell.Key())
		}
	}
}

// A round of slices has the pace of most trials of the block, and of two trials only what both show.
func TestARoundHasThePaceOfMostTrials(t *testing.T) {
	trial := func(open bool, paces ...float64) *record.Record {
		r := &record.Record{}
		var sum float64
		for _, pace := range paces {
			sum += pace
		}
		for _, pace := range paces {
			r.WindowNS += 1e8
			s := record.Slice{TookNS: 1e8, Completed: int64(1e6 * pace), Requests: 1000, SumNS: int64(1e9 / pace)}
			r.Completed += s.Completed
			r.Slices = append(r.Slices, s)
		}
		r.Service.Count, r.Service.Sum = 1000, int64(1e9*float64(len(paces))/sum)
		if open {
			r.Pacing = &record.Pacing{}
		}
		return r
	}
	for name, c := range map[string]struct {
		block []*record.Record
		want  []float64
	}{
		"both slow":     {[]*record.Record{trial(false, 1.5, 0.5), trial(true, 1.2, 0.8)}, []float64{1.2, 0.8}},
		"one warms up":  {[]*record.Record{trial(false, 0.5, 1.5), trial(false, 1, 1)}, []float64{1, 1}},
		"they disagree": {[]*record.Record{trial(false, 0.5, 1.5), trial(false, 1.5, 0.5)}, []float64{1, 1}},
		"most of three": {[]*record.Record{trial(false, 1.6, 0.4), trial(false, 1.4, 0.6), trial(false, 1, 1), {Failure: "gone"}}, []float64{1.2, 0.8}},
		"alone":         {[]*record.Record{trial(false, 1.6, 0.4)}, []float64{0, 0}},
		"no call ended": {[]*record.Record{trial(true, 1, 1), {Measurement: record.Measurement{Slices: make([]record.Slice, 2), Pacing: &record.Pacing{}}}}, []float64{0, 0}},
	} {
		fillPaces(c.block)
		for round, want := range c.want {
			if got := c.block[0].Slices[round].Pace; math.Abs(got-want) > 1e-3 {
				t.Errorf("%s: a pace of %v in round %d, want %v", name, got, round, want)
			}
		}
	}
}
