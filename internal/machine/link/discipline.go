package link

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
)

// A discipline decides whether, when and in which order the frames of one direction leave. It uses
// neither a clock nor a socket. The caller passes the current time in nanoseconds, which must not
// go backwards. A frame is identified by the slot with its bytes.
//
// First the discipline decides whether the frame is lost. Then it applies rate and delay.
type discipline struct {
	path    record.Way
	wire    rateLimiter
	counts  record.LinkWay
	seed    uint64
	arrived uint64 // number of frames that arrived
	bad     bool   // the link is in the bad state, in which it loses all frames
	due     int64  // due time of the last frame in line

	line  []departure // frames that leave in order
	first int         // index of the next frame in line
	aside []departure // frames that later frames overtake, in order of arrival
	ahead uint64      // highest number of a frame that has left, plus one
}

// A departure describes a frame that waits to leave.
type departure struct {
	slot     int
	number   uint64
	arrived  int64
	due      int64
	twice    bool
	overtake int // number of later frames that must still overtake this frame
}

// A verdict is the decision about an arriving frame.
type verdict int

const (
	frameHeld verdict = iota
	frameLost
	frameQueueFull
)

const (
	// maxOvertaking limits how many later frames overtake a frame. If three frames overtake it, TCP
	// assumes a loss (RFC 5681, section 3.2). So some reorderings look like losses.
	maxOvertaking = 3
	maxAside      = 256
	// minOvertakeWait is the longest time that a frame waits until later frames overtake the frame.
	// If the path's delay is longer, the frame waits for that delay.
	minOvertakeWait = int64(time.Millisecond)
)

// newDiscipline makes a discipline. direction is 0 or 1, and makes the random numbers of the two
// directions differ.
func newDiscipline(p record.Way, seed uint64, direction int) *discipline {
	return &discipline{path: p, wire: newRateLimiter(p), seed: mixBits(seed) + uint64(direction)}
}

// admit decides about an arriving frame. If it returns frameHeld, takeDue returns the frame later.
func (d *discipline) admit(now int64, sizeBytes, slot int) verdict {
	frame := departure{slot: slot, number: d.arrived, arrived: now}
	draws := d.countArrival(sizeBytes)
	if draws.isLost(d) {
		d.counts.Lost++
		return frameLost
	}
	frame.twice = draws.duplicated < d.path.Duplicate
	sent, ok := d.wire.enqueue(now, sizeBytes)
	if !ok {
		d.counts.Full++
		return frameQueueFull
	}
	if frame.twice {
		_, frame.twice = d.wire.enqueue(now, sizeBytes)
	}
	spread := int64((2*draws.delayed - 1) * float64(d.path.JitterNS))
	d.due = max(d.due, sent+d.path.DelayNS+spread)
	frame.due = d.due
	if draws.reordered < d.path.Reorder && len(d.aside) < maxAside {
		frame.overtake = 1 + int(draws.overtaken*maxOvertaking)
		frame.due += max(minOvertakeWait, d.path.DelayNS)
		d.aside = append(d.aside, frame)
		return frameHeld
	}
	d.appendInLine(frame)
	return frameHeld
}

// countOverrun counts a frame for which the caller has no room. The frame gets a number, so that
// the random numbers of later frames do not change.
func (d *discipline) countOverrun(sizeBytes int) {
	draws := d.countArrival(sizeBytes)
	draws.isLost(d)
	d.counts.Overrun++
}

func (d *discipline) countArrival(sizeBytes int) randomDraws {
	draws := drawRandoms(d.seed, d.arrived)
	d.arrived++
	d.counts.Frames++
	d.counts.Bytes += int64(sizeBytes)
	return draws
}

// appendInLine appends a frame to the line. Then it appends the frames in aside that enough later
// frames have overtaken.
func (d *discipline) appendInLine(frame departure) {
	if len(d.line) == cap(d.line) && d.first > len(d.line)/2 {
		d.line = slices.Delete(d.line, 0, d.first)
		d.first = 0
	}
	d.line = append(d.line, frame)
	waiting := d.aside[:0]
	for _, w := range d.aside {
		if w.due >= frame.due { // if true, w leaves before frame
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

func (d *discipline) nextDue() (due int64, ok bool) {
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

// takeDue removes and returns the next frame that is due. It returns false if no frame is due. If
// twice is set, the caller must send the frame twice.
func (d *discipline) takeDue(now int64) (leaving departure, ok bool) {
	due, ok := d.nextDue()
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

// randomDraws holds the random numbers of a frame, uniform from 0 to below 1 and independent. They
// depend only on the seed and on the frame's number.
type randomDraws struct {
	alone, run, duplicated, reordered, overtaken, delayed float64
}

func drawRandoms(seed, number uint64) randomDraws {
	const step = 0x9e3779b97f4a7c15 // increment of SplitMix64: 2^64 divided by the golden ratio
	state := mixBits(seed ^ mixBits(number+step))
	draw := func() float64 {
		state += step
		return float64(mixBits(state)>>11) / (1 << 53)
	}
	return randomDraws{draw(), draw(), draw(), draw(), draw(), draw()}
}

// isLost reports whether the frame is lost, alone or in a burst. It updates the link's state.
func (l randomDraws) isLost(d *discipline) bool {
	inRun := d.bad
	if share := d.path.BurstLoss; share > 0 {
		// begins is the probability p that the state turns bad. ends is the probability r that it
		// turns good. The link is bad for the share p/(p+r) of the time. Each bad state lasts 1/r
		// packets on average.
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

// mixBits is the output function of SplitMix64 (G. L. Steele et al., "Fast Splittable Pseudorandom
// Number Generators", 2014).
func mixBits(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// A rateLimiter models the rate and the queue of a path. It sends one frame after the other, and
// refuses a frame if the queue is full. With rate 0 it sends frames at once.
type rateLimiter struct {
	rate  uint64 // bits per second
	free  int64  // instant at which the whole queue has been sent
	part  uint64 // part/rate is a fraction of a nanosecond that belongs to free
	limit int64  // longest sending time of a full queue, in nanoseconds
}

func newRateLimiter(p record.Way) rateLimiter {
	w := rateLimiter{rate: uint64(p.Rate)}
	if w.rate > 0 {
		w.limit, _ = w.sendingTime(queueBytes(p), 0)
		w.limit++ // because sendingTime rounds down
	}
	return w
}

// enqueue adds a frame and returns when it will have left. It returns false if the queue is full.
func (w *rateLimiter) enqueue(now int64, sizeBytes int) (sent int64, ok bool) {
	if w.rate == 0 {
		return now, true
	}
	begin, part := w.free, w.part
	if begin <= now {
		begin, part = now, 0
	}
	nanos, part := w.sendingTime(sizeBytes, part)
	if begin+nanos-now > w.limit {
		return 0, false
	}
	w.free, w.part = begin+nanos, part
	return w.free, true
}

// sendingTime returns how long a frame takes: whole nanoseconds, and a remainder. The caller passes
// the previous frame's remainder (part), so that the rate is exact over many frames.
func (w *rateLimiter) sendingTime(sizeBytes int, part uint64) (whole int64, rest uint64) {
	const bitNanos = 8 * 1_000_000_000
	high, low := bits.Mul64(uint64(sizeBytes), bitNanos)
	low, carry := bits.Add64(low, part, 0)
	if high+carry >= w.rate {
		return math.MaxInt64 / 4, 0 // 73 years: an exact value does not matter
	}
	quotient, rest := bits.Div64(high+carry, low, w.rate)
	return int64(min(quotient, math.MaxInt64/4)), rest
}

// A wakeMargin computes how long before a frame is due its thread should wake up, because the
// kernel wakes threads late. It adapts after each sleep.
type wakeMargin struct {
	delay int64 // the delay of the path
	late  int64 // a tenth of the wake-ups are later than this
}

const (
	initialLateness = int64(60 * time.Microsecond)
	// maxSpin limits how long a thread spins for a frame. Later wake-ups mean that the machine is
	// busy, and spinning would take CPU time from other programs.
	maxSpin = int64(200 * time.Microsecond)
	// latenessDivisor decides when to spin: if late wake-ups reach the delay divided by
	// latenessDivisor. A trial has a warning if the P99 of the lateness exceeds a tenth of the delay.
	latenessDivisor = 100
)

func newWakeMargin(delay time.Duration) wakeMargin {
	return wakeMargin{delay: int64(delay), late: initialLateness}
}

// recordSleep adapts the margin after a sleep that ended this many nanoseconds late.
func (w *wakeMargin) recordSleep(late int64) {
	// Add nine steps after a wake-up later than w.late, else subtract one step. So w.late is stable
	// when one in ten wake-ups is later than w.late.
	const step = int64(500 * time.Nanosecond)
	if late > w.late {
		w.late += 9 * step
	} else {
		w.late -= step
	}
	w.late = min(max(w.late, 0), maxSpin)
}

// margin returns how long before a frame is due its thread wakes up and spins. Spinning takes CPU
// time from the trial, so the margin is 0 if late wake-ups hardly change the delay. It is also 0
// for a path without a delay, because its rate limiter compensates for late wake-ups.
func (w *wakeMargin) margin() int64 {
	if w.delay == 0 || w.late*latenessDivisor < w.delay {
		return 0
	}
	return w.late
}
