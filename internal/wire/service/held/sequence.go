package held

import (
	"slices"

	"wirelab.dev/internal/data/record"
)

// A sequence follows the numbers of a stream's messages. The zero value expects any first number.
type sequence struct {
	record.Sequence
	begun bool
	next  int64
	holes []hole // missing numbers, in ascending order
}

// A hole holds the missing numbers from first to last.
type hole struct{ first, last int64 }

// maxHoles bounds the memory of a stream's missing numbers. A number from an older hole counts as a
// duplicate.
const maxHoles = 256

// maxJump is the greatest number of missing numbers between two messages. A larger step counts as a
// new beginning.
const maxJump = 1 << 40

// restart lets the next number be the first one again.
func (s *sequence) restart() { s.begun, s.holes = false, nil }

// observe counts the number of the next message.
func (s *sequence) observe(number int64) {
	ahead := uint64(number) - uint64(s.next) // wraps around if the number is lower
	switch {
	case !s.begun || number > s.next && ahead > maxJump:
		s.begun, s.holes = true, nil
	case number > s.next:
		s.Missing += int64(ahead)
		s.Streams = 1
		s.holes = append(s.holes, hole{s.next, number - 1})
		if len(s.holes) > maxHoles {
			s.holes = slices.Delete(s.holes, 0, 1)
		}
	case number < s.next:
		s.fill(number)
		return
	}
	s.next = number + 1
}

// fill counts a number that is not higher than all before.
func (s *sequence) fill(number int64) {
	i := slices.IndexFunc(s.holes, func(h hole) bool { return h.first <= number && number <= h.last })
	if i < 0 {
		s.Duplicate++
		return
	}
	s.Missing--
	s.Reordered++
	var rest []hole
	if h := s.holes[i]; h.first < number {
		rest = append(rest, hole{h.first, number - 1})
	}
	if h := s.holes[i]; number < h.last {
		rest = append(rest, hole{number + 1, h.last})
	}
	s.holes = slices.Replace(s.holes, i, i+1, rest...)
	if s.Missing == 0 {
		s.Streams = 0
	}
}
