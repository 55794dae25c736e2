package link

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
)

// model is a path as one would write it who need not be fast: times are fractions,
// and frames lie in one heap that is searched.
type model struct {
	path record.Way
	free *big.Rat // when the wire is free
	due  int64
	rank int
	all  []modelled
}

type modelled struct {
	number, rank, overtake int
	due                    int64
	aside                  bool
}

func ratio(a, b int64) *big.Rat { return big.NewRat(a, b) }

// work returns the time that the wire takes for a number of bytes.
func (m *model) work(sizeBytes int) *big.Rat {
	return ratio(int64(sizeBytes)*8_000_000_000, m.path.Rate)
}

// room says whether the queue takes a frame; sure is false within a nanosecond or two
// of its end, where rounding decides.
func (m *model) room(now int64, sizeBytes int) (room, sure bool) {
	if m.path.Rate == 0 {
		return true, true
	}
	waiting := new(big.Rat).Sub(m.free, ratio(now, 1))
	if waiting.Sign() < 0 {
		waiting.SetInt64(0)
	}
	spare := new(big.Rat).Sub(m.work(queueBytes(m.path)), waiting)
	spare.Sub(spare, m.work(sizeBytes))
	over, _ := spare.Float64()
	return over >= 0, math.Abs(over) > 2
}

// send takes the wire for a frame and returns when it is through.
func (m *model) send(now int64, sizeBytes int) int64 {
	if m.path.Rate == 0 {
		return now
	}
	if begin := ratio(now, 1); m.free.Cmp(begin) < 0 {
		m.free = begin
	}
	m.free = new(big.Rat).Add(m.free, m.work(sizeBytes))
	return new(big.Int).Quo(m.free.Num(), m.free.Denom()).Int64()
}

func (m *model) hold(number int, sent int64, draws randomDraws, crowded bool) {
	m.due = max(m.due, sent+m.path.DelayNS+int64((2*draws.delayed-1)*float64(m.path.JitterNS)))
	m.rank += 1000
	f := modelled{number: number, rank: m.rank, due: m.due}
	if draws.reordered < m.path.Reorder && !crowded {
		f.aside, f.overtake = true, 1+int(draws.overtaken*maxOvertaking)
		f.due += max(minOvertakeWait, m.path.DelayNS)
		f.rank = math.MaxInt
	} else {
		behind := m.rank
		for i := range m.all {
			w := &m.all[i]
			if !w.aside || w.due < f.due {
				continue
			}
			if w.overtake--; w.overtake == 0 {
				behind++
				w.aside, w.due, w.rank = false, f.due, behind
			}
		}
	}
	m.all = append(m.all, f)
}

// leave takes out the number of the frame that is next until then.
func (m *model) leave(until int64) (number int, ok bool) {
	if len(m.all) == 0 {
		return 0, false
	}
	next := slices.MinFunc(m.all, func(a, b modelled) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.rank, b.rank), cmp.Compare(a.number, b.number))
	})
	if next.due > until {
		return 0, false
	}
	m.all = slices.DeleteFunc(m.all, func(f modelled) bool { return f.number == next.number })
	return next.number, true
}

func (m *model) asides() (n int) {
	for _, f := range m.all {
		if f.aside {
			n++
		}
	}
	return n
}

// FuzzDiscipline sends frames of any sizes at any instants, and wants of each what the
// model says.
func FuzzDiscipline(f *testing.F) {
	f.Add(uint64(1), uint8(10), uint8(20), uint8(30), uint32(9600), uint16(20), uint16(5), []byte("\x00\x00\x10\xff\x80\x20\x01\x02"))
	f.Add(uint64(2), uint8(0), uint8(200), uint8(0), uint32(0), uint16(100), uint16(100), []byte("abcdefghijklmnopqrstuvwxyz"))
	f.Add(uint64(3), uint8(0), uint8(0), uint8(90), uint32(40_000_000), uint16(0), uint16(0), []byte("\x00\xff\x00\xff\x00\xff\x00\xff"))
	f.Fuzz(func(t *testing.T, seed uint64, loss, reorder, duplicate uint8, rate uint32, delay, jitter uint16, frames []byte) {
		path := record.Way{
			DelayNS: int64(time.Duration(delay) * 100 * time.Microsecond), Loss: float64(loss) / 256,
			Reorder: float64(reorder) / 256, Duplicate: float64(duplicate) / 256, Rate: int64(rate), QueueBytes: 5000,
		}
		path.JitterNS = min(path.DelayNS, int64(time.Duration(jitter)*100*time.Microsecond))
		if leastRate := uint32(9600); rate > 0 && rate < leastRate || len(frames) > 2000 {
			t.Skip("no such path")
		}
		compareWithModel(t, path, seed, frames)
	})
}

// compareWithModel reads a frame from two bytes: the pause before it, and its size.
func compareWithModel(t *testing.T, path record.Way, seed uint64, frames []byte) {
	d := newDiscipline(path, seed, 0)
	m := &model{path: path, free: new(big.Rat)}
	leave := func(until int64) {
		for {
			want, wantOK := m.leave(until)
			got, ok := d.takeDue(until)
			if ok != wantOK || ok && int(got.number) != want {
				t.Fatalf("until %d frame %d left (%v), want %d (%v)", until, got.number, ok, want, wantOK)
			}
			if !ok {
				return
			}
		}
	}
	now := int64(0)
	for i := 0; i+1 < len(frames); i += 2 {
		number := i / 2
		now += int64(frames[i]) * int64(frames[i]) * 1000
		leave(now - 1)
		sizeBytes := 60 + 5*int(frames[i+1])
		draws := drawRandoms(d.seed, uint64(number))
		room, sure := m.room(now, sizeBytes)
		before := d.counts
		got := d.admit(now, sizeBytes, number)
		want := frameHeld
		switch {
		case draws.alone < path.Loss:
			want = frameLost
		case !room:
			want = frameQueueFull
		}
		if got != want && (sure || got == frameLost || want == frameLost) {
			t.Fatalf("frame %d: verdict %d, want %d", number, got, want)
		}
		if d.counts.Frames != before.Frames+1 || d.counts.Bytes != before.Bytes+int64(sizeBytes) {
			t.Fatalf("frame %d was not counted: %+v", number, d.counts)
		}
		if got != frameHeld {
			continue
		}
		sent := m.send(now, sizeBytes)
		if draws.duplicated < path.Duplicate {
			if room, sure := m.room(now, sizeBytes); !sure {
				t.Skip("rounding decides whether a copy has room")
			} else if room {
				m.send(now, sizeBytes)
			}
		}
		m.hold(number, sent, draws, m.asides() >= maxAside)
	}
	leave(math.MaxInt64)
	if c := d.counts; c.Frames != c.Sent-c.Duplicated+c.Lost+c.Full {
		t.Fatalf("frames are missing: %+v", c)
	}
}
