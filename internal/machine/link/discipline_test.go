package link

import (
	"math"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

const (
	thousand = 1000
	million  = thousand * thousand
)

// fate records what happened to a frame.
type fate struct {
	verdict verdict
	left    int64 // when; 0 if it did not
	place   int   // among those that left
	twice   bool
}

// play sends frames of one size through a path at a fixed interval, and lets each
// leave when it is due.
func play(p record.Way, seed uint64, frames int, interval time.Duration, sizeBytes int) ([]fate, record.LinkWay) {
	d := newDiscipline(p, seed, 0)
	fates := make([]fate, frames)
	place := 0
	leave := func(until int64) {
		for due, ok := d.nextDue(); ok && due <= until; due, ok = d.nextDue() {
			frame, _ := d.takeDue(due)
			f := &fates[frame.number]
			f.left, f.place, f.twice = due, place, frame.twice
			place++
		}
	}
	for i := range frames {
		now := int64(interval) * int64(i)
		leave(now - 1)
		fates[i].verdict = d.admit(now, sizeBytes, i)
	}
	leave(math.MaxInt64)
	return fates, d.counts
}

// within fails unless a count lies within five standard deviations of the binomial
// distribution: once in two million seeds, and the seed is fixed.
func within(t *testing.T, what string, count int64, tries int, share float64) {
	t.Helper()
	mean := share * float64(tries)
	if off := math.Abs(float64(count) - mean); off > 5*math.Sqrt(mean*(1-share)) {
		t.Errorf("%s: %d of %d, want %.0f", what, count, tries, mean)
	}
}

func TestAShareIsLostByItself(t *testing.T) {
	for seed := range uint64(20) {
		fates, counts := play(record.Way{Loss: 0.01}, seed, 100*thousand, time.Microsecond, 100)
		within(t, "lost", counts.Lost, 100*thousand, 0.01)
		pairs := 0
		for i := range fates[1:] {
			if fates[i].verdict == frameLost && fates[i+1].verdict == frameLost {
				pairs++
			}
		}
		within(t, "lost one after the other", int64(pairs), 100*thousand, 0.01*0.01)
	}
}

func TestBurstsHaveTheirShareAndLength(t *testing.T) {
	for _, burst := range []record.Way{{BurstLoss: 0.01, BurstPackets: 5}, {BurstLoss: 0.02, BurstPackets: 1}, {BurstLoss: 0.3, BurstPackets: 20}} {
		fates, counts := play(burst, 3, million, time.Microsecond, 100)
		runs := 0
		for i := range fates {
			if fates[i].verdict == frameLost && (i == 0 || fates[i-1].verdict != frameLost) {
				runs++
			}
		}
		share, length := float64(counts.Lost)/million, float64(counts.Lost)/float64(runs)
		t.Logf("%+v: %.4f lost in %d runs of %.2f", burst, share, runs, length)
		// Lengths spread about as wide as their mean.
		tolerance := 5 * math.Sqrt(2/float64(runs))
		if math.Abs(share/burst.BurstLoss-1) > tolerance || math.Abs(length/burst.BurstPackets-1) > tolerance {
			t.Errorf("%+v: lost a share of %.4f in runs of %.2f", burst, share, length)
		}
	}
}

func TestJitterIsSpreadEvenlyAndKeepsTheOrder(t *testing.T) {
	const frames = 100 * thousand
	path := record.Way{DelayNS: int64(5 * time.Millisecond), JitterNS: int64(2 * time.Millisecond)}
	fates, _ := play(path, 7, frames, 10*time.Millisecond, 100) // too far apart to meet
	delays := make([]float64, frames)
	for i, f := range fates {
		delays[i] = float64(f.left-int64(i)*int64(10*time.Millisecond)) / float64(time.Millisecond)
	}
	slices.Sort(delays)
	// Kolmogorov's distance from the even spread over 3 to 7 ms.
	distance := 0.0
	for i, delay := range delays {
		distance = max(distance, math.Abs((delay-3)/4-float64(i)/frames))
	}
	if bound := 3 / math.Sqrt(frames); distance > bound {
		t.Errorf("delays are off an even spread by %.4f, allowed %.4f", distance, bound)
	}
	fates, _ = play(path, 7, frames, 10*time.Microsecond, 100)
	for i, f := range fates {
		if f.place != i {
			t.Fatalf("frame %d left as number %d", i, f.place)
		}
	}
}

func TestARateIsExact(t *testing.T) {
	const size, frames = 1514, 100 * thousand
	for _, rate := range []int64{9600, 50 * million, 99_999_999, 10_000 * million} {
		fates, _ := play(record.Way{Rate: rate, QueueBytes: size * frames}, 1, frames, 0, size)
		want := float64(size*frames*8) / float64(rate) * 1e9
		if got := float64(fates[frames-1].left); math.Abs(got-want) > 1 && math.Abs(got/want-1) > 1e-15 {
			t.Errorf("%d bits a second: the last frame left after %.0f ns, want %.0f", rate, got, want)
		}
	}
}

// The truth that is put in: a queue of ten frames, twelve at once. What must come out:
// ten; the first of them is on the wire when its time begins.
func TestAQueueDropsWhatItHasNoRoomFor(t *testing.T) {
	const size = 1000
	fates, counts := play(record.Way{Rate: 8 * million, QueueBytes: 10 * size}, 1, 12, 0, size)
	for i, f := range fates {
		want := frameHeld
		if i >= 10 {
			want = frameQueueFull
		}
		if f.verdict != want {
			t.Errorf("frame %d: verdict %d, want %d", i, f.verdict, want)
		}
	}
	if counts.Full != 2 || counts.Sent != 10 || counts.Lost+counts.Overrun != 0 {
		t.Errorf("%+v", counts)
	}
	// At the rate itself nothing ever waits.
	_, counts = play(record.Way{Rate: 8 * million, QueueBytes: size + 14}, 1, thousand, time.Millisecond, size)
	if counts.Full != 0 {
		t.Errorf("%d dropped at the link's own rate", counts.Full)
	}
	// At twice the rate, half is dropped, but for what the queue holds at the end.
	_, counts = play(record.Way{Rate: 8 * million, QueueBytes: 10 * size}, 1, 10*thousand, time.Millisecond/2, size)
	if off := counts.Full - 5*thousand; off < -11 || off > 0 {
		t.Errorf("%d dropped of 10000 at twice the rate", counts.Full)
	}
}

func TestAShareIsOvertaken(t *testing.T) {
	const frames, share = 100 * thousand, 0.05
	path := record.Way{DelayNS: int64(time.Millisecond), Reorder: share}
	fates, counts := play(path, 11, frames, 10*time.Microsecond, 100)
	within(t, "reordered", counts.Reordered, frames, share)
	farthest := 0
	for i, f := range fates {
		farthest = max(farthest, f.place-i)
		if limit := int64(i)*int64(10*time.Microsecond) + 2*int64(time.Millisecond); f.left > limit {
			t.Fatalf("frame %d left at %d, %d later than it may", i, f.left, f.left-limit)
		}
	}
	if farthest < maxOvertaking {
		t.Errorf("no frame left more than %d places late", farthest)
	}
	// Where nothing follows soon, nothing overtakes, and a frame does not wait for ever.
	fates, counts = play(path, 11, thousand, 10*time.Millisecond, 100)
	if counts.Reordered != 0 || counts.Sent != thousand {
		t.Errorf("%+v: want none reordered and all sent", counts)
	}
	for i, f := range fates {
		delay := f.left - int64(i)*int64(10*time.Millisecond)
		if delay != int64(time.Millisecond) && delay != 2*int64(time.Millisecond) {
			t.Fatalf("frame %d was held for %d", i, delay)
		}
	}
}

func TestAShareComesTwice(t *testing.T) {
	fates, counts := play(record.Way{Duplicate: 0.03}, 13, 100*thousand, time.Microsecond, 100)
	within(t, "duplicated", counts.Duplicated, 100*thousand, 0.03)
	twice := int64(0)
	for _, f := range fates {
		if f.twice {
			twice++
		}
	}
	if twice != counts.Duplicated || counts.Sent != 100*thousand+twice {
		t.Errorf("%d left twice; %+v", twice, counts)
	}
	// A copy takes its time on the wire.
	fates, _ = play(record.Way{Duplicate: 0.5, Rate: 8 * million, QueueBytes: million}, 13, 100, 0, 1000)
	_, counts = play(record.Way{Duplicate: 0.5}, 13, 100, 0, 1000)
	end := (100 + counts.Duplicated) * int64(time.Millisecond)
	if last := fates[99]; last.left != end && last.left != end-int64(time.Millisecond) {
		t.Errorf("100 frames and %d copies left by %d, want %d", counts.Duplicated, last.left, end)
	}
}

func TestASeedDecidesByNumber(t *testing.T) {
	path := record.Way{
		DelayNS: int64(time.Millisecond), JitterNS: int64(time.Millisecond / 2), Loss: 0.1,
		BurstLoss: 0.1, BurstPackets: 3, Duplicate: 0.1,
	}
	verdicts := func(seed uint64, interval time.Duration, sizeBytes int) (all []fate) {
		fates, _ := play(path, seed, thousand, interval, sizeBytes)
		for _, f := range fates {
			all = append(all, fate{verdict: f.verdict, twice: f.twice})
		}
		return all
	}
	// Neither when nor how long a frame is matters.
	same := verdicts(5, time.Microsecond, 100)
	if !slices.Equal(same, verdicts(5, time.Millisecond, 1500)) {
		t.Error("the same seed led to another fate")
	}
	if slices.Equal(same, verdicts(6, time.Microsecond, 100)) {
		t.Error("another seed led to the same fate")
	}
	up, down := newDiscipline(path, 5, 0), newDiscipline(path, 5, 1)
	differ := false
	for i := range thousand {
		differ = up.admit(0, 100, i) != down.admit(0, 100, i) || differ
	}
	if !differ {
		t.Error("both directions lose the same frames")
	}
	// A frame that found no room has a number too.
	d := newDiscipline(path, 5, 0)
	for i := range same {
		if i%7 == 0 {
			d.countOverrun(100)
		} else if got := d.admit(int64(i), 100, i); got != same[i].verdict {
			t.Fatalf("frame %d: verdict %d, want %d", i, got, same[i].verdict)
		}
	}
}

func TestAPathThatDoesNothingHoldsNothing(t *testing.T) {
	fates, _ := play(record.Way{}, 1, thousand, time.Microsecond, 100)
	for i, f := range fates {
		if f.left != int64(i)*int64(time.Microsecond) || f.place != i || f.twice {
			t.Fatalf("frame %d: %+v", i, f)
		}
	}
}

func TestADisciplineDoesNotAllocate(t *testing.T) {
	d := newDiscipline(record.Way{DelayNS: int64(time.Microsecond), Loss: 0.01, Reorder: 0.1, Rate: 1000 * million}, 1, 0)
	now := int64(0)
	step := func() {
		for range 100 {
			now += 100
			d.admit(now, 100, 0)
			for _, ok := d.takeDue(now); ok; _, ok = d.takeDue(now) {
			}
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for 100 frames", n)
	}
}

func BenchmarkDiscipline(b *testing.B) {
	d := newDiscipline(record.Way{
		DelayNS: int64(time.Millisecond), JitterNS: int64(time.Millisecond / 2), Loss: 0.01, Reorder: 0.01,
		Duplicate: 0.01, Rate: 1000 * million, BurstLoss: 0.01, BurstPackets: 3,
	}, 1, 0)
	now := int64(0)
	for b.Loop() {
		now += 12_000
		d.admit(now, 1500, 0)
		for _, ok := d.takeDue(now); ok; _, ok = d.takeDue(now) {
		}
	}
}
