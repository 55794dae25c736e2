package link

import (
	"slices"
	"time"
)

// A discipline decides about each frame of one direction, and when and in which
// order frames leave. It has no clock and no socket: the caller passes the instant,
// in nanoseconds, which must not go backwards. A frame is identified by the slot
// that holds its bytes.
//
// A frame is first lost or not, then waits for the rate, then for its delay.
type discipline struct {
	path    Path
	wire    wire
	counts  PathCounts
	seed    uint64
	arrived uint64 // frames so far: the number of the next
	bad     bool   // in a run of losses
	due     int64  // of the last frame that keeps its place

	line  []departure // those that keep their place, in order
	first int         // of line; what is before it has left
	aside []departure // those that let others overtake, in order
	ahead uint64      // one more than the highest number that left
}

// A departure is a frame that is to leave.
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
	// leastPatience is the shortest time that a frame waits for others to overtake it.
	// The longest is its path's delay.
	leastPatience = int64(time.Millisecond)
)

// newDiscipline makes one for a checked path. The direction, 0 or 1, keeps the fates
// of the two ways apart.
func newDiscipline(p Path, seed uint64, direction int) *discipline {
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
		d.counts.Dropped++
		return queueFull
	}
	if frame.twice {
		_, frame.twice = d.wire.take(now, sizeBytes)
	}
	spread := int64((2*draws.delayed - 1) * float64(d.path.Jitter))
	d.due = max(d.due, sent+int64(d.path.Delay)+spread)
	frame.due = d.due
	if draws.reordered < d.path.Reorder && len(d.aside) < mostAside {
		frame.overtake = 1 + int(draws.overtaken*mostOvertaking)
		frame.due += max(leastPatience, int64(d.path.Delay))
		d.aside = append(d.aside, frame)
		return held
	}
	d.keepInLine(frame)
	return held
}

// overrun counts a frame for which the caller has no room. It gets a number like any other.
func (d *discipline) overrun(sizeBytes int) {
	draws := d.arrive(sizeBytes)
	draws.lost(d)
	d.counts.Overrun++
}

// arrive counts a frame and draws its lots.
func (d *discipline) arrive(sizeBytes int) lots {
	draws := drawLots(d.seed, d.arrived)
	d.arrived++
	d.counts.Frames++
	d.counts.Bytes += int64(sizeBytes)
	return draws
}

// keepInLine appends a frame to the line, and behind it those aside that it is the
// last to overtake.
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

// depart returns the next frame that is due now, once; false if there is none. A frame
// that comes twice is to be sent twice.
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
	if burst := d.path.Burst; burst.Loss > 0 {
		// The share of time in the bad state, p/(p+r), is to be burst.Loss, and a
		// stay in it is 1/r packets.
		ends := 1 / burst.Packets
		begins := ends * burst.Loss / (1 - burst.Loss)
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
