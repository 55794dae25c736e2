package worker

import (
	"fmt"

	"wirelab.dev/internal/data/scenario"
)

// Split makes of one client's spec those of several workers that together do what it asks
// for: each has some of the clients, and of what the clients share, the in-flight limit and
// the connections of a pool, as much as goes with these. The load, and the seed of its
// arrivals, stay those of the whole group (Group).
func Split(spec Spec, parts int) ([]Spec, error) {
	if spec.Client == nil {
		return nil, fmt.Errorf("split a spec: role %q has no clients", spec.Role)
	}
	if parts == 1 {
		return []Spec{spec}, nil
	}
	whole := *spec.Client
	if err := whole.checkSplit(parts); err != nil {
		return nil, err
	}
	connection, err := scenario.ParseConnection(whole.Connection)
	if err != nil {
		return nil, fmt.Errorf("split a spec: %w", err)
	}
	clients := evenly(whole.Clients, parts)
	limits, err := proportionally(whole.Load.InFlightLimit, clients)
	if err != nil {
		return nil, fmt.Errorf("an in-flight limit %w", err)
	}
	connections, err := proportionally(connection.Size, clients)
	if err != nil {
		return nil, fmt.Errorf("connection %s: a pool %w", whole.Connection, err)
	}
	specs := make([]Spec, parts)
	first := 0
	for i := range specs {
		part := whole
		part.Clients, part.Group = clients[i], &Group{First: first, Of: whole.Clients}
		part.Load.InFlightLimit = limits[i]
		part.Connection = scenario.Connection{Mode: connection.Mode, Size: connections[i]}.String()
		specs[i] = spec
		specs[i].Client = &part
		first += clients[i]
	}
	return specs, nil
}

func (c *ClientSpec) checkSplit(parts int) error {
	switch {
	case parts < 1:
		return fmt.Errorf("split a spec: %d workers: want at least 1", parts)
	case c.Group != nil:
		return fmt.Errorf("split a spec: its clients are already %d of a group of %d", c.Clients, c.Group.Of)
	case c.Load.Model == search:
		return fmt.Errorf("a search cannot be spread over %d machines: each step's rate follows from what the one before came to; use one machine, or the load model %q", parts, openLoop)
	case c.Clients < parts:
		return fmt.Errorf("%d clients cannot be spread over %d machines: use %d machines at most, or more clients", c.Clients, parts, c.Clients)
	}
	return nil
}

// evenly divides a number into parts, the first of which may have one more than the others.
func evenly(number, parts int) []int {
	shares := make([]int, parts)
	for i := range shares {
		shares[i] = number / parts
		if i < number%parts {
			shares[i]++
		}
	}
	return shares
}

// proportionally divides a number as clients are divided, each share at least 1. None (0) is
// none for all.
func proportionally(number int, clients []int) ([]int, error) {
	shares := make([]int, len(clients))
	if number == 0 {
		return shares, nil
	}
	if number < len(clients) {
		return nil, fmt.Errorf("of %d cannot be spread over %d machines: each needs at least 1", number, len(clients))
	}
	all := 0
	for _, n := range clients {
		all += n
	}
	// One each, since a share may come to less. What is left goes, one by one, to whom the
	// most is due.
	for i := range shares {
		shares[i] = 1
	}
	for range number - len(clients) {
		most := 0
		for i := range shares {
			if due(i, number, all, shares, clients) > due(most, number, all, shares, clients) {
				most = i
			}
		}
		shares[most]++
	}
	return shares, nil
}

// due is how much a share still lacks of what goes with its clients, in parts of all clients.
func due(i, number, all int, shares, clients []int) int {
	return number*clients[i] - shares[i]*all
}
