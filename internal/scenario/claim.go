package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Claim is a published or new statement about how one variant compares with
// another, in a form that the scenario's own cells can answer. It is judged with
// the fewest clients and the smallest size of a part.
type Claim struct {
	// The row of a published study that says so.
	Row string `json:"row,omitempty"`
	// What is claimed, as a clause.
	Says string `json:"says" jsonschema:"required"`
	// The part whose cells answer it.
	Part string `json:"part" jsonschema:"required"`
	// The variant that the claim is about.
	Of Variant `json:"of" jsonschema:"required"`
	// The variant that it is compared with.
	Against Variant `json:"against" jsonschema:"required"`
	// What of: the mean response time or its P99, a request's CPU time at an end or at
	// both (cpu), the throughput; of an end the share of its CPU time that is the
	// program's own (user), how often its threads leave their CPUs a request
	// (switches), and how many futex system calls a request makes, for which the part
	// needs the probe syscalls.
	Figure Figure `json:"figure" jsonschema:"required,enum=mean,enum=p99,enum=cpu,enum=client-cpu,enum=server-cpu,enum=throughput,enum=client-user,enum=server-user,enum=client-switches,enum=server-switches,enum=client-futex,enum=server-futex"`
	// How many times the other's figure is claimed, at most where it is below 1
	// and at least where it is above. If left out, less than the other's.
	Ratio float64 `json:"ratio,omitempty" jsonschema:"exclusiveMinimum=0"`
	// Another part with the same two variants: the claim is then that the ratio
	// is lower here than there.
	Below string `json:"below,omitempty"`
}

// Figure is what a claim is about.
type Figure string

// The figures.
const (
	MeanTime   Figure = "mean"
	P99        Figure = "p99"
	CPU        Figure = "cpu"
	ClientCPU  Figure = "client-cpu"
	ServerCPU  Figure = "server-cpu"
	Throughput Figure = "throughput"

	ClientUser     Figure = "client-user"
	ServerUser     Figure = "server-user"
	ClientSwitches Figure = "client-switches"
	ServerSwitches Figure = "server-switches"
	ClientFutex    Figure = "client-futex"
	ServerFutex    Figure = "server-futex"
)

var claimable = []string{
	string(MeanTime), string(P99), string(CPU), string(ClientCPU), string(ServerCPU), string(Throughput),
	string(ClientUser), string(ServerUser), string(ClientSwitches), string(ServerSwitches), string(ClientFutex), string(ServerFutex),
}

// Probe is the one whose trials have the figure; empty for figures of trials that are
// measured.
func (f Figure) Probe() Probe {
	if f == ClientFutex || f == ServerFutex {
		return SyscallProbe
	}
	return ""
}

// claim checks a claim.
func (s *Scenario) claim(c Claim) error {
	switch {
	case c.Says == "":
		return errors.New("a claim needs `says`: what is claimed")
	case !slices.Contains(claimable, string(c.Figure)):
		return fmt.Errorf("figure: %s", Suggest(string(c.Figure), claimable))
	case c.Ratio < 0:
		return fmt.Errorf("ratio: want more than 0, found %v", c.Ratio)
	case c.Ratio > 0 && c.Below != "":
		return errors.New("ratio and below are different claims: give one of them")
	}
	names := s.partNames()
	for _, name := range []string{c.Part, cmp.Or(c.Below, c.Part)} {
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("a claim about part %q: %s", name, Suggest(name, names))
		}
		if s.Parts[i].Profile != "" {
			return fmt.Errorf("a claim about part %s: it is profiled and has no figures; name a part without `profile`", name)
		}
		if probe := c.Figure.Probe(); probe != "" && !slices.Contains(s.Parts[i].Probes, probe) {
			return fmt.Errorf("a claim about %s in part %s: give the part `probes: [%s]`", c.Figure, name, probe)
		}
		measurable := slices.Concat(s.Parts[i].Stacks, s.Parts[i].Yardsticks)
		for _, v := range []Variant{c.Of, c.Against} {
			if !slices.ContainsFunc(measurable, func(m Variant) bool { return m.String() == v.String() }) {
				return fmt.Errorf("a claim about %s: part %s does not measure it; name one of its stacks", v, name)
			}
		}
	}
	return nil
}

// about reports whether the claim can be judged by these parts.
func (c Claim) about(parts []Part) bool {
	has := func(name string) bool {
		return name == "" || slices.ContainsFunc(parts, func(p Part) bool { return p.Name == name })
	}
	return has(c.Part) && has(c.Below)
}
