package scenario

import (
	"slices"
	"time"
)

// Network is one of the trial's own: a fresh network namespace. The zero value
// is the machine's loopback.
type Network struct {
	// How many local ports there are for connections to the server. If left
	// out, as many as Linux has by default: 28,232.
	Ports int `json:"ports,omitempty" jsonschema:"minimum=2,maximum=32768"`
	// Whether a connection may take over, after a second, the ports of one
	// that was closed, as Linux lets it on loopback. If left out, no: they are
	// held for a minute.
	TimeWaitReuse bool `json:"time-wait-reuse,omitempty"`
	// How long a packet takes between client and server, each way. If left
	// out, both are on one loopback.
	Delay Duration `json:"delay,omitempty"`
}

// The bounds of a network.
const (
	minPorts, maxPorts = 2, 32768
	maxDelay           = Duration(10 * time.Second)
)

func (c *checker) network(in func(...any) at, p Part) *problem {
	n := p.Network
	switch {
	case n.Ports != 0 && (n.Ports < minPorts || n.Ports > maxPorts):
		return c.problem(in("network", "ports"), "ports: want %d to %d, found %d", minPorts, maxPorts, n.Ports)
	case n.Delay < 0 || n.Delay > maxDelay:
		return c.problem(in("network", "delay"), "delay: want 0s to %v, found %v", maxDelay, n.Delay)
	}
	return nil
}

// total checks that a total of requests leaves no client without any.
func (c *checker) total(in func(...any) at, p Part) *problem {
	if most := slices.Max(p.Clients); p.Load.Total > 0 && p.Load.Total < most {
		return c.problem(in("load", "total-requests"), "total-requests: %d are fewer than the %d clients: each needs one at least", p.Load.Total, most)
	}
	return nil
}
