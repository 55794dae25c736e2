package analysis

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// A Fleet holds the agents that ran the ends of a run's trials on machines of their own.
type Fleet struct {
	Agents        []FleetAgent `json:"agents"`          // the servers first
	ClockErrorUS  float64      `json:"clock_error_us"`  // how well an instant of one machine was known on another's clock, at the worst
	OpenedApartUS float64      `json:"opened_apart_us"` // how far apart the windows of a trial's clients opened, at the most
}

// A FleetAgent is an agent in one of its roles.
type FleetAgent struct {
	Name    string   `json:"name"`
	Role    string   `json:"role" jsonschema:"enum=server,enum=client"` // the end that it ran
	Labels  []string `json:"labels"`                                    // as in zone=a
	Machine string   `json:"machine"`                                   // system, kernel and processor
	Trials  int      `json:"trials"`                                    // in which it had the role

	ClockOffsetUS float64 `json:"clock_offset_us"` // its clock ahead of that of the machine that wirelab ran on, after the last trial
	ClockErrorUS  float64 `json:"clock_error_us"`  // how well that was known, at the worst
}

// fleetOf lists the agents of all trials; nil if none ran on one.
func fleetOf(records []*record.Record) *Fleet {
	var f *Fleet
	for _, r := range records {
		if r.Fleet == nil {
			continue
		}
		if f == nil {
			f = &Fleet{}
		}
		f.OpenedApartUS = max(f.OpenedApartUS, float64(r.Fleet.OpenedApartNS)/1e3)
		if r.Fleet.Server.Name != "" {
			f.add("server", r.Fleet.Server)
		}
		for i := range r.Fleet.Clients {
			f.add("client", r.Fleet.Clients[i].Agent)
		}
	}
	if f != nil {
		slices.SortFunc(f.Agents, func(a, b FleetAgent) int {
			return cmp.Or(cmp.Compare(b.Role, a.Role), cmp.Compare(a.Name, b.Name))
		})
	}
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

// InRole returns the names of the agents that had a role.
func (f *Fleet) InRole(role string) []string {
	var names []string
	for _, a := range f.Agents {
		if a.Role == role {
			names = append(names, a.Name)
		}
	}
	return names
}
