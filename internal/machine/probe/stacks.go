package probe

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/symbol"
)

// Stacks gathers call stacks of one process, by the names of their functions.
type Stacks struct {
	Record record.Stacks
	frames map[record.Frame]int
	stacks map[string]int
	own    *symbol.Process
	kernel *symbol.Kernel // nil: its functions have no names
}

// NewStacks gathers the stacks of a process. It may be used where its error wraps
// host.ErrUnsupported: the kernel's functions then have no names.
func NewStacks(unit string, own *symbol.Process) (*Stacks, error) {
	s := newStacks(unit)
	var err error
	s.own = own
	s.kernel, err = symbol.OfKernel()
	return s, err
}

func newStacks(unit string) *Stacks {
	return &Stacks{Record: record.Stacks{Unit: unit}, frames: map[record.Frame]int{}, stacks: map[string]int{}}
}

// Add adds a stack: its program counters, the innermost first.
func (s *Stacks) Add(user, kernel []uint64, weight int64) {
	var stack []int
	for _, pc := range kernel {
		stack = append(stack, s.frame(record.Frame{Function: cmp.Or(s.kernel.Name(pc), "[kernel]"), In: record.InKernel}))
	}
	for i, pc := range user {
		for _, frame := range s.own.Frames(pc, i == 0) {
			stack = append(stack, s.frame(record.Frame{Function: frame.Function, In: frame.In}))
		}
	}
	s.add(stack, weight, 1)
}

// add adds samples of a stack, the innermost frame first.
func (s *Stacks) add(stack []int, weight, samples int64) {
	slices.Reverse(stack)
	key := make([]byte, 0, 4*len(stack))
	for _, frame := range stack {
		key = append(key, byte(frame), byte(frame>>8), byte(frame>>16))
	}
	at, known := s.stacks[string(key)]
	if !known {
		at = len(s.Record.Stacks)
		s.stacks[string(key)] = at
		s.Record.Stacks = append(s.Record.Stacks, record.Stack{Frames: stack})
	}
	s.Record.Samples += samples
	s.Record.Stacks[at].Weight += weight
	s.Record.Stacks[at].Count += samples
}

// Under returns the part of a kernel stack below the outermost call of a function whose name
// begins with name. It so removes the probe itself.
func (s *Stacks) Under(name string, kernel []uint64) []uint64 {
	for i := len(kernel) - 1; i >= 0; i-- {
		if strings.HasPrefix(s.kernel.Name(kernel[i]), name) {
			return kernel[i+1:]
		}
	}
	return kernel
}

func (s *Stacks) frame(frame record.Frame) int {
	at, known := s.frames[frame]
	if !known {
		at = len(s.Record.Frames)
		s.frames[frame] = at
		s.Record.Frames = append(s.Record.Frames, frame)
	}
	return at
}

// Done returns the stacks, the heaviest first.
func (s *Stacks) Done() *record.Stacks {
	slices.SortStableFunc(s.Record.Stacks, func(a, b record.Stack) int { return cmp.Compare(b.Weight, a.Weight) })
	return &s.Record
}
