package scenario

import (
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/spelling"
)

// A Probe records something of a trial besides its times. It slows the trial down, so
// a trial has at most one.
type Probe string

// The probes.
const (
	CounterProbe    Probe = "counters"
	SyscallProbe    Probe = "syscalls"
	CPUProbe        Probe = "cpu"
	OffCPUProbe     Probe = "offcpu"
	AllocationProbe Probe = "alloc"
	LifeProbe       Probe = "life"
)

// Probes lists all probes.
var Probes = []Probe{CounterProbe, SyscallProbe, CPUProbe, OffCPUProbe, AllocationProbe, LifeProbe}

// ParseProbes reads a list such as cpu,life. The word all means all probes.
func ParseProbes(texts []string) ([]Probe, error) {
	var probes []Probe
	for _, text := range texts {
		if text == "all" {
			return Probes, nil
		}
		var probe Probe
		if err := probe.UnmarshalText([]byte(text)); err != nil {
			return nil, err
		}
		if !slices.Contains(probes, probe) {
			probes = append(probes, probe)
		}
	}
	return probes, nil
}

// UnmarshalText reads a probe's name.
func (p *Probe) UnmarshalText(text []byte) error {
	if !slices.Contains(Probes, Probe(text)) {
		names := make([]string, len(Probes))
		for i, probe := range Probes {
			names[i] = string(probe)
		}
		return fmt.Errorf("unknown probe %q; %s", text, spelling.Suggest(string(text), names))
	}
	*p = Probe(text)
	return nil
}

// lifeWindow has thousands of calls of one client.
const lifeWindow = time.Second

// passes returns the trials of a part that have a probe, by the repeat that they belong to,
// from 1. There are about as many as trials without a probe, so that a run takes at most twice
// as long, but each probe has at least one trial of every cell.
func (p Part) passes() map[int][]Cell {
	passes := map[int][]Cell{}
	cells := p.cells()
	each := max(1, p.Repeats/max(1, len(p.Probes)))
	for i, probe := range p.Probes {
		for pass := range each {
			repeat := 1 + (pass*len(p.Probes)+i)%p.Repeats
			for _, cell := range cells {
				if probe == LifeProbe && !cell.onlyOne(cells) {
					continue
				}
				cell.Probe = probe
				if probe == LifeProbe {
					cell.Clients, cell.Load = 1, Load{Model: Closed, Duration: Duration(lifeWindow)}
				}
				passes[repeat] = append(passes[repeat], cell)
			}
		}
	}
	return passes
}

// onlyOne reports whether a cell is the first of the cells that differ only in their clients:
// the stages of a call are recorded with one client, whatever the part has.
func (c Cell) onlyOne(cells []Cell) bool {
	first := slices.IndexFunc(cells, func(other Cell) bool {
		return other.Variant.String() == c.Variant.String() && other.Size == c.Size
	})
	return cells[first].Clients == c.Clients
}

// Without returns the scenario without a probe.
func (s *Scenario) Without(probe Probe) *Scenario {
	without := new(*s)
	without.Parts = slices.Clone(s.Parts)
	for i, p := range s.Parts {
		without.Parts[i].Probes = slices.DeleteFunc(slices.Clone(p.Probes), func(other Probe) bool { return other == probe })
	}
	return without
}

// HasProbe reports whether any part asks for a probe.
func (s *Scenario) HasProbe(probe Probe) bool {
	return slices.ContainsFunc(s.Parts, func(p Part) bool { return slices.Contains(p.Probes, probe) })
}
