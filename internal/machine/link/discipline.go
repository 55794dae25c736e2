package link

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
)

// A discipline decides whether, when and in which order the frames of one direction leave. It has
// no clock and no socket: the caller passes the instant, in nanoseconds, which must not go
// backwards. A frame is identified by the slot that holds its bytes.
//
// A frame is first lost or not, then waits for the rate, then for its delay.
type discipline struct {
	path    record.Way
	wire    wire
	counts  record.LinkWay
	seed    uint64
	arrived uint64 // frames so far: the number of the next
	bad     bool   // in a run of losses
	due     int64  // due time of the last frame that keeps its place

	line  []departure // frames that keep their place, in order
	first int         // index in line; frames before it have left
	aside []departure // frames that let others overtake, in order
	ahead uint64      // one more than the highest number that left
}

// A departure is a frame that will leave.
type departure struct {
	slot     int
	number   uint64
	arrived  int64
	due      int64
	twice    bool
	overtake int // frames that are still to overtake it
}

// A verdict decides about a frame that arrives.
type verdict int

const (
	held verdict = iota
	lost
	queueFull
)

const (
	// mostOvertaking limits the later frames that overtake one: TCP takes three for a
	// loss (RFC 5681, section 3.2), so some reorderings look like one.
	mostOvertaking = 3
	// mostAside bounds the frames that wait to be overtaken.
	mostAside = 256
	// leastPatience is the shortest wait for others to overtake; the path's delay is the longest.
	leastPatience = int64(time.Millisecond)
)

// newDiscipline makes a discipline. The direction, 0 or 1, separates the fates of the two ways.
func newDiscipline(p record.Way, seed uint64, direction int) *discipline {
	return &discipline{path: p, wire: newWire(p), seed: mix(seed) + uint64(direction)}
}

// admit takes a frame that arrives now. If it is held, it comes out of depart.
func (d *discipline) admit(now int64, sizeBytes, slot int) verdict {
	frame := departure{slot: slot, number: d.arrived, arrived: now}
	draws := d.arrive(sizeBytes)
	if draws.lost(d) {
		d.counts.Lost++
		return lost
	}
	frame.twice = draws.duplicated < d.path.Duplicate
	sent, ok := d.wire.take(now, sizeBytes)
	if !ok {
		d.counts.Full++
		return queueFull
	}
	if frame.twice {
		_, frame.twice = d.wire.take(now, sizeBytes)
	}
	spread := int64((2*draws.delayed - 1) * float64(d.path.JitterNS))
	d.due = max(d.due, sent+d.path.DelayNS+spread)
	frame.due = d.due
	if draws.reordered < d.path.Reorder && len(d.aside) < mostAside {
		frame.overtake = 1 + int(draws.overtaken*mostOvertaking)
		frame.due += max(leastPatience, d.path.DelayNS)
		d.aside = append(d.aside, frame)
		return held
	}
	d.keepInLine(frame)
	return held
}

// overrun counts a frame that the caller has no room for. It gets a number like any other frame.
func (d *discipline) overrun(sizeBytes int) {
	draws := d.arrive(sizeBytes)
	draws.lost(d)
	d.counts.Overrun++
}

// arrive counts a frame and draws its random numbers.
func (d *discipline) arrive(sizeBytes int) lots {
	draws := drawLots(d.seed, d.arrived)
	d.arrived++
	d.counts.Frames++
	d.counts.Bytes += int64(sizeBytes)
	return draws
}

// keepInLine appends a frame, and after it the frames in aside that it is the last to overtake.
func (d *discipline) keepInLine(frame departure) {
	if len(d.line) == cap(d.line) && d.first > len(d.line)/2 {
		d.line = slices.Delete(d.line, 0, d.first)
		d.first = 0
	}
	d.line = append(d.line, frame)
	waiting := d.aside[:0]
	for _, w := range d.aside {
		if w.due >= frame.due { // otherwise its patience is over first
			w.overtake--
		}
		if w.overtake > 0 {
			waiting = append(waiting, w)
			continue
		}
		w.due = frame.due
		d.line = append(d.line, w)
	}
	d.aside = waiting
}

// next returns when the next frame is due; false if none is held.
func (d *discipline) next() (due int64, ok bool) {
	inLine, aside := d.first < len(d.line), len(d.aside) > 0
	switch {
	case inLine && aside:
		return min(d.line[d.first].due, d.aside[0].due), true
	case inLine:
		return d.line[d.first].due, true
	case aside:
		return d.aside[0].due, true
	}
	return 0, false
}

// depart returns the next frame that is due now, once, even if it is to be sent twice.
func (d *discipline) depart(now int64) (leaving departure, ok bool) {
	due, ok := d.next()
	if !ok || due > now {
		return departure{}, false
	}
	if d.first < len(d.line) && d.line[d.first].due == due {
		leaving = d.line[d.first]
		d.first++
	} else {
		leaving = d.aside[0]
		d.aside = slices.Delete(d.aside, 0, 1)
	}
	if d.first == len(d.line) {
		d.line, d.first = d.line[:0], 0
	}
	d.counts.Sent++
	if leaving.twice {
		d.counts.Sent++
		d.counts.Duplicated++
	}
	if leaving.number+1 < d.ahead {
		d.counts.Reordered++
	}
	d.ahead = max(d.ahead, leaving.number+1)
	return leaving, true
}

// lots holds the random numbers of a frame: evenly spread from 0 to below 1, and independent
// of each other. They depend only on the seed and the frame's number.
type lots struct {
	alone, run, duplicated, reordered, overtaken, delayed float64
}

func drawLots(seed, number uint64) lots {
	const step = 0x9e3779b97f4a7c15 // of SplitMix64: 2^64 over the golden ratio
	state := mix(seed ^ mix(number+step))
	draw := func() float64 {
		state += step
		return float64(mix(state)>>11) / (1 << 53)
	}
	return lots{draw(), draw(), draw(), draw(), draw(), draw()}
}

// lost reports whether the frame is lost, by itself or in a run, and advances the run.
func (l lots) lost(d *discipline) bool {
	inRun := d.bad
	if share := d.path.BurstLoss; share > 0 {
		// The share of time in the bad state is p/(p+r), and a stay in it is 1/r packets.
		ends := 1 / d.path.BurstPackets
		begins := ends * share / (1 - share)
		if d.bad {
			d.bad = l.run >= ends
		} else {
			d.bad = l.run < begins
		}
	}
	return inRun || l.alone < d.path.Loss
}

// mix is the output function of SplitMix64 (G. L. Steele and others, "Fast Splittable
// Pseudorandom Number Generators", 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// A wire is a path's rate: it sends frames one after the other, and refuses those for
// which its queue has no room. Without a rate it sends at once.
type wire struct {
	rate  uint64 // bits per second
	free  int64  // when it has sent all that it took
	part  uint64 // the fraction of a nanosecond that free is late: part/rate
	limit int64  // the most work that it accepts, in nanoseconds
}

func newWire(p record.Way) wire {
	w := wire{rate: uint64(p.Rate)}
	if w.rate > 0 {
		w.limit, _ = w.nanos(queueBytes(p), 0)
		w.limit++ // for the part that nanos leaves out
	}
	return w
}

// take adds a frame and returns when it has been sent; false if the queue is full.
func (w *wire) take(now int64, sizeBytes int) (sent int64, ok bool) {
	if w.rate == 0 {
		return now, true
	}
	begin, part := w.free, w.part
	if begin <= now {
		begin, part = now, 0
	}
	nanos, part := w.nanos(sizeBytes, part)
	if begin+nanos-now > w.limit {
		return 0, false
	}
	w.free, w.part = begin+nanos, part
	return w.free, true
}

// nanos returns how long a frame takes, in whole nanoseconds, and the rest. It adds the rest of
// the frame before, so that the rate is exact in the long run.
func (w *wire) nanos(sizeBytes int, part uint64) (whole int64, rest uint64) {
	const bitNanos = 8 * 1_000_000_000
	high, low := bits.Mul64(uint64(sizeBytes), bitNanos)
	low, carry := bits.Add64(low, part, 0)
	if high+carry >= w.rate {
		return math.MaxInt64 / 4, 0 // centuries
	}
	quotient, rest := bits.Div64(high+carry, low, w.rate)
	return int64(min(quotient, math.MaxInt64/4)), rest
}

// A wake chooses how long before a frame is due a thread should wake, since the kernel
// wakes it late. It learns from each delay.
type wake struct {
	delay int64 // of the path
	late  int64 // a lateness that one wake in ten exceeds
}

const (
	// firstLate is assumed before the first measurement.
	firstLate = int64(60 * time.Microsecond)
	// mostSpin limits the CPU time that a frame may cost: a machine that is later
	// than this is busy, and spinning would take even more of its CPUs.
	mostSpin = int64(200 * time.Microsecond)
	// spinShare limits the lateness that needs no spin: the delay divided by it. A trial
	// is invalid at a tenth of the delay, at P99.
	spinShare = 100
)

func newWake(delay time.Duration) wake { return wake{delay: int64(delay), late: firstLate} }

// slept learns from a sleep that ended this much later than asked.
func (w *wake) slept(late int64) {
	// Up by nine for each that is later, down by one otherwise: at rest one in ten is later.
	const step = int64(500 * time.Nanosecond)
	if late > w.late {
		w.late += 9 * step
	} else {
		w.late -= step
	}
	w.late = min(max(w.late, 0), mostSpin)
}

// early returns how long before due a frame's thread wakes, and then spins. Spinning costs a CPU
// that the trial may need, so it is used only for delays that a late wake would falsify. If only
// a rate makes frames wait, a late wake is made up for.
func (w *wake) early() int64 {
	if w.delay == 0 || w.late*spinShare < w.delay {
		return 0
	}
	return w.late
}
