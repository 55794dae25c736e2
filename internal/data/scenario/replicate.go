package scenario

import (
	"slices"
	"strings"

	"wirelab.dev/internal/data/claim"
)

// ForClaims returns the scenario with only the cells that the wanted claims need, each
// measured the given number of times. It leaves out probes, samples and steps: no claim
// needs them.
func (s *Scenario) ForClaims(wanted func(*Claim) bool, repeats int) (*Scenario, error) {
	only := *s
	only.Title = strings.TrimSpace(s.Title + " (claims)")
	only.Report, only.Claims = Report{}, nil
	needed := map[string][]Choice{}
	syscalls := map[string]bool{}
	for _, c := range s.Claims {
		if !wanted(&c) {
			continue
		}
		only.Claims = append(only.Claims, c)
		cells, counted, err := s.cellsOf(&c)
		if err != nil {
			return nil, err
		}
		for part, choices := range cells {
			for _, choice := range choices {
				if !slices.ContainsFunc(needed[part], func(other Choice) bool { return choice.is(other) }) {
					needed[part] = append(needed[part], choice)
				}
			}
			syscalls[part] = syscalls[part] || counted[part]
		}
	}
	only.Parts = nil
	for _, p := range s.Parts {
		if p.Only = needed[p.Name]; len(p.Only) == 0 {
			continue
		}
		p.Repeats, p.Samples, p.Steps, p.Changes, p.Probes = repeats, false, nil, nil, nil
		if syscalls[p.Name] {
			p.Probes = []Probe{SyscallProbe}
		}
		only.Parts = append(only.Parts, p)
	}
	return &only, nil
}

func (c Choice) is(other Choice) bool {
	return c.Stack.String() == other.Stack.String() && c.Size == other.Size && c.Clients == other.Clients
}

// cellsOf returns the cells that a claim needs, by part, as far as the scenario measures them,
// and the parts in which it needs system calls.
func (s *Scenario) cellsOf(c *Claim) (cells map[string][]Choice, counted map[string]bool, err error) {
	needs, err := s.Needs(c)
	if err != nil {
		return nil, nil, err
	}
	cells, counted = map[string][]Choice{}, map[string]bool{}
	for _, need := range needs {
		p, err := s.partOf(need.Cell.Part)
		if err != nil {
			return nil, nil, err
		}
		size := slices.IndexFunc(p.Sizes, func(size Payload) bool { return int(size.Request) == need.Cell.Bytes })
		stack := slices.IndexFunc(p.Stacks, func(v Variant) bool { return v.String() == need.Cell.Variant })
		if size < 0 || stack < 0 || !slices.Contains(p.Clients, need.Cell.Clients) {
			continue // a yardstick that was not asked for, or left out by --quick
		}
		cells[p.Name] = append(cells[p.Name], Choice{p.Stacks[stack], p.Sizes[size], need.Cell.Clients})
		counted[p.Name] = counted[p.Name] || claim.NeedsSyscalls(need.Figure)
	}
	return cells, counted, nil
}

// NeededBy returns a function that reports whether one of these claims needs a cell. Claims
// are given by their places in the scenario; a wrong place, from a damaged manifest, is ignored.
func (s *Scenario) NeededBy(claims []int) func(Cell) bool {
	needed := map[string][]Choice{}
	for _, i := range claims {
		if i < 0 || i >= len(s.Claims) {
			continue
		}
		cells, _, err := s.cellsOf(&s.Claims[i])
		if err != nil {
			continue // it was checked, and needs nothing more
		}
		for part, choices := range cells {
			needed[part] = append(needed[part], choices...)
		}
	}
	return func(c Cell) bool {
		at := Choice{c.Variant, c.Size, c.Clients}
		return slices.ContainsFunc(needed[c.Part], func(choice Choice) bool { return choice.is(at) })
	}
}

// Brief returns the scenario with windows no longer than the given one, whatever the number
// of clients. A closed loop of a number of requests becomes a closed loop of this time, so
// that a ratio of two of them keeps its meaning. A burst stays whole, since a smaller one
// would be another question. A part without a warm-up shows how something begins; it is
// reduced as --quick reduces it.
func (s *Scenario) Brief(window Duration) *Scenario {
	brief := *s
	brief.Parts = slices.Clone(s.Parts)
	for i := range brief.Parts {
		p := &brief.Parts[i]
		if p.WarmUp.AtMost == 0 {
			quick := Reduction{Requests: s.Reduction.Requests, MaxClients: slices.Max(p.Clients), Repeats: p.Repeats}
			*p = quick.of(*p)
			continue
		}
		p.WarmUp.AtMost = min(p.WarmUp.AtMost, window)
		p.WarmUp.AtLeast = min(p.WarmUp.AtLeast, p.WarmUp.AtMost)
		switch {
		case p.Load.Model == Closed:
			p.Load.Requests, p.Load.Total, p.Load.Duration = 0, 0, window
		case p.Load.Model == Burst || p.Load.Model == Search:
		case p.Load.Duration > 2*window: // a schedule needs time to show its losses
			p.Load.Duration = 2 * window
		}
	}
	return &brief
}
