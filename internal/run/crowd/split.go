package crowd

import (
	"fmt"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
)

// Split divides one client's spec between several workers, which together send the same load. Each
// worker gets a share of the clients, of the in-flight limit and of the pool's connections. Each
// spec keeps the load and the seed of the whole group (worker.Group).
func Split(spec worker.Spec, parts int) ([]worker.Spec, error) {
	if spec.Client == nil {
		return nil, fmt.Errorf("split a spec: the spec has the role %q and no clients: want a client's spec", spec.Role)
	}
	if parts == 1 {
		return []worker.Spec{spec}, nil
	}
	whole := *spec.Client
	if err := checkSplit(&whole, parts); err != nil {
		return nil, err
	}
	connection, err := scenario.ParseConnection(whole.Connection)
	if err != nil {
		return nil, fmt.Errorf("split a spec: %w", err)
	}
	clients := divideEvenly(whole.Clients, parts)
	limits, err := divideProportionally(whole.Load.InFlightLimit, clients)
	if err != nil {
		return nil, fmt.Errorf("an in-flight limit %w", err)
	}
	connections, err := divideProportionally(connection.Size, clients)
	if err != nil {
		return nil, fmt.Errorf("connection %s: a pool %w", whole.Connection, err)
	}
	specs := make([]worker.Spec, parts)
	first := 0
	for i := range specs {
		part := whole
		part.Clients, part.Group = clients[i], &worker.Group{First: first, Of: whole.Clients}
		part.Load.InFlightLimit = limits[i]
		part.Connection = scenario.Connection{Mode: connection.Mode, Size: connections[i]}.String()
		specs[i] = spec
		specs[i].Client = &part
		first += clients[i]
	}
	return specs, nil
}

func checkSplit(c *worker.ClientSpec, parts int) error {
	switch {
	case parts < 1:
		return fmt.Errorf("split a spec for %d workers: want at least 1 worker", parts)
	case c.Group != nil:
		return fmt.Errorf("split a spec: the spec was split before: it has %d clients of a group of %d; want the spec of the whole group", c.Clients, c.Group.Of)
	case c.Clients < parts:
		return fmt.Errorf("%d clients cannot be spread over %d machines: use at most %d machines, or more clients", c.Clients, parts, c.Clients)
	}
	return nil
}

// divideEvenly divides a number into almost equal parts. The first parts may be larger by 1.
func divideEvenly(number, parts int) []int {
	shares := make([]int, parts)
	for i := range shares {
		shares[i] = number / parts
		if i < number%parts {
			shares[i]++
		}
	}
	return shares
}

// divideProportionally divides a number in proportion to the clients. Shares are 0 if number is 0.
func divideProportionally(number int, clients []int) ([]int, error) {
	shares := make([]int, len(clients))
	if number == 0 {
		return shares, nil
	}
	if number < len(clients) {
		return nil, fmt.Errorf("of %d cannot be spread over %d machines: each machine needs at least 1", number, len(clients))
	}
	all := 0
	for _, n := range clients {
		all += n
	}
	// Each share begins with 1. Each further unit goes to the share farthest below its proportion.
	for i := range shares {
		shares[i] = 1
	}
	for range number - len(clients) {
		most := 0
		for i := range shares {
			if missingShare(i, number, all, shares, clients) > missingShare(most, number, all, shares, clients) {
				most = i
			}
		}
		shares[most]++
	}
	return shares, nil
}

// missingShare returns how far a share is below its proportion, multiplied by all.
func missingShare(i, number, all int, shares, clients []int) int {
	return number*clients[i] - shares[i]*all
}
