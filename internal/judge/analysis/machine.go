package analysis

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Setting is a setting of a stack that differs from its library's default.
type Setting struct {
	Stack    string   `json:"stack"`
	Variants []string `json:"variants"` // variants with this value
	tuning.Setting
}

func settings(points []*matrix.Point) []Setting {
	var all []Setting
	for _, p := range points {
		for _, t := range p.Trials {
			for _, s := range t.Settings {
				found := lists.FindOrAdd(&all, Setting{Stack: p.Cell.Stack, Setting: s}, func(known Setting) bool {
					return known.Stack == p.Cell.Stack && known.Setting == s
				})
				found.Variants = lists.AppendNew(found.Variants, p.Cell.Variant)
			}
		}
	}
	return all
}

// A MachineLimit is one of the machine's limits, in the trial that came nearest to it.
type MachineLimit struct {
	Name  string `json:"name"`
	Need  int64  `json:"need"`  // amount that the trial needed
	Have  int64  `json:"have"`  // amount that the machine allowed
	Short bool   `json:"short"` // the machine had less than the trial needed
	Note  string `json:"note"`
	Cell  string `json:"cell"` // the cell that came nearest
}

func limitsOf(r *record.Record) []record.Limit {
	all := slices.Clone(r.Limits)
	if r.Fleet != nil {
		for _, c := range r.Fleet.Clients {
			for _, l := range c.Limits {
				l.Note = strings.TrimSuffix("on agent "+c.Name+"; "+l.Note, "; ")
				all = append(all, l)
			}
		}
	}
	return all
}

func machineLimits(points []*matrix.Point) []MachineLimit {
	var all []MachineLimit
	for _, p := range points {
		for _, t := range p.Trials {
			for _, l := range limitsOf(t.Record) {
				here := MachineLimit{Name: l.Name, Need: l.Need, Have: l.Have, Note: l.Note, Cell: p.Cell.Key(), Short: l.Need > l.Have}
				least := lists.FindOrAdd(&all, here, func(known MachineLimit) bool { return known.Name == l.Name })
				if l.Have-l.Need < least.Have-least.Need {
					*least = here
				}
			}
		}
	}
	return all
}

// A Fleet lists the agents whose machines ran the ends of a run's trials.
type Fleet struct {
	Agents        []FleetAgent `json:"agents"`          // the servers first
	ClockErrorUS  float64      `json:"clock_error_us"`  // largest error in comparing two machines' clocks
	OpenedApartUS float64      `json:"opened_apart_us"` // largest time between the openings of a trial's windows
}

// A FleetAgent is an agent in one of its roles.
type FleetAgent struct {
	Name    string   `json:"name"`
	Role    string   `json:"role" jsonschema:"enum=server,enum=client"` // the end that the agent ran
	Labels  []string `json:"labels"`                                    // the agent's labels, such as zone=a
	Machine string   `json:"machine"`                                   // the agent's system, kernel and processor
	Trials  int      `json:"trials"`                                    // trials in this role

	ClockOffsetUS float64 `json:"clock_offset_us"` // how far the agent's clock was ahead of the controller's clock, after the last trial
	ClockErrorUS  float64 `json:"clock_error_us"`  // largest error of this offset
}

// fleetOf returns the agents of all trials, or nil if there were none.
func fleetOf(records []*record.Record) *Fleet {
	f := &Fleet{}
	for _, r := range records {
		if r.Fleet == nil {
			continue
		}
		f.OpenedApartUS = max(f.OpenedApartUS, float64(r.Fleet.OpenedApartNS)/1e3)
		if r.Fleet.Server.Name != "" {
			f.add("server", r.Fleet.Server)
		}
		for _, c := range r.Fleet.Clients {
			f.add("client", c.Agent)
		}
	}
	if len(f.Agents) == 0 {
		return nil
	}
	slices.SortFunc(f.Agents, func(a, b FleetAgent) int {
		return cmp.Or(cmp.Compare(b.Role, a.Role), cmp.Compare(a.Name, b.Name))
	})
	return f
}

func (f *Fleet) add(role string, a record.Agent) {
	fresh := FleetAgent{Name: a.Name, Role: role}
	into := lists.FindOrAdd(&f.Agents, fresh, func(known FleetAgent) bool { return known.Name == a.Name && known.Role == role })
	into.Machine, into.Labels = a.Machine, nil
	for name, value := range a.Labels {
		into.Labels = append(into.Labels, name+"="+value)
	}
	slices.Sort(into.Labels)
	into.Trials++
	into.ClockOffsetUS = float64(a.Clock.OffsetNS) / 1e3
	into.ClockErrorUS = max(into.ClockErrorUS, float64(a.Clock.ErrorNS)/1e3)
	f.ClockErrorUS = max(f.ClockErrorUS, into.ClockErrorUS)
}

// AgentsInRole returns the names of the agents with a role.
func (f *Fleet) AgentsInRole(role string) []string {
	var names []string
	for _, a := range f.Agents {
		if a.Role == role {
			names = append(names, a.Name)
		}
	}
	return names
}

// foreignPrograms names the programs that measured the records, other than wirelab.
func foreignPrograms(records []*record.Record) []string {
	var programs []string
	for _, r := range records {
		if r.Foreign != nil {
			programs = lists.AppendNew(programs, r.Foreign.Program())
		}
	}
	return programs
}
