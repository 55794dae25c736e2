package scenario

import (
	"math/rand/v2"
	"slices"
)

// A Cell is one point of a part's matrix, with everything that a trial needs.
type Cell struct {
	Part       string
	Variant    Variant
	Workload   string
	Size       Payload
	Clients    int
	Connection Connection // the zero value stands for the stack's default
	Network    Network    // the zero value stands for the machine's loopback
	Load       Load
	WarmUp     WarmUp
	Samples    bool
	Probe      Probe  // records something besides times; none if the times count
	Definition string // the data that the workload needs beside its options
}

// A Planned is one repeat of a cell. Repeats count from 1.
type Planned struct {
	Cell   Cell
	Repeat int
}

// cells lists every cell once, by size, then clients, then stack.
func (p Part) cells() []Cell {
	cells := make([]Cell, 0, len(p.Sizes)*len(p.Clients)*len(p.Stacks))
	var probe Probe
	if p.Profile != "" {
		probe = AllocationProbe
	}
	for _, size := range p.Sizes {
		for _, clients := range p.Clients {
			for _, variant := range p.Stacks {
				if !p.has(variant, size, clients) {
					continue
				}
				cells = append(cells, Cell{
					Part: p.Name, Variant: variant, Workload: p.Workload,
					Size: size, Clients: clients, Connection: p.Connection, Network: p.Network,
					Load: p.Load, WarmUp: p.WarmUp, Samples: p.Samples, Probe: probe, Definition: p.Definition,
				})
			}
		}
	}
	return cells
}

// has reports whether a cell of the matrix is measured.
func (p Part) has(variant Variant, size Payload, clients int) bool {
	return len(p.Only) == 0 || slices.ContainsFunc(p.Only, func(only Choice) bool {
		return only.Size == size && only.Clients == clients && only.Stack.String() == variant.String()
	})
}

// Plan puts all trials in the order in which they are measured: part by part,
// each by Order. A part's order does not depend on what other parts there are.
func (s *Scenario) Plan() []Planned {
	var plan []Planned
	for _, p := range s.Parts {
		plan = append(plan, Order(s.Seed, p.cells(), p.passes(), p.Repeats)...)
	}
	return plan
}

// PlanLooks plans a run that goes on after looking at its result: the trials of each look
// follow the trials of the look before it, in the order of Plan. Parts without repeats, and
// parts with more repeats than a look, keep their own number.
// Again chooses the cells that a look repeats, and is asked for each look, from 0.
func (s *Scenario) PlanLooks(repeats []int, again func(look int, c Cell) bool) []Planned {
	var plan []Planned
	before := 0
	for look, most := range repeats {
		for _, p := range s.Parts {
			cells, from, to := p.cells(), before, p.Repeats
			chosen := slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return !again(look, c) })
			if len(chosen) > 0 {
				to = max(most, p.Repeats)
			}
			if before > 0 {
				cells, from = chosen, max(before, p.Repeats)
			}
			for _, trial := range Order(s.Seed, cells, p.passes(), to) {
				if trial.Repeat > from {
					plan = append(plan, trial)
				}
			}
		}
		before = most
	}
	return plan
}

// Order plans every cell repeats times, and each repeat's passes. A repeat is a
// block of all cells, shuffled again, so that compared cells are measured close
// together, and a drift, such as of the machine's temperature, does not hit only
// one cell. The same seed gives the same order, on every machine.
func Order(seed uint64, cells []Cell, passes map[int][]Cell, repeats int) []Planned {
	plan := make([]Planned, 0, len(cells)*repeats)
	random := rand.New(rand.NewPCG(seed, 0))
	for repeat := 1; repeat <= repeats; repeat++ {
		block := slices.Concat(cells, passes[repeat])
		random.Shuffle(len(block), func(i, j int) { block[i], block[j] = block[j], block[i] })
		for _, c := range block {
			plan = append(plan, Planned{Cell: c, Repeat: repeat})
		}
	}
	return plan
}
