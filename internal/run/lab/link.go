package lab

import (
	"cmp"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/link"
)

// settings returns a scenario's network as settings of package link. A network without a seed
// gets the trial's.
func settings(n scenario.Network, seed uint64) link.Settings {
	up, down := n.Ways()
	return link.Settings{
		Ports: n.Ports, TimeWaitReuse: n.TimeWaitReuse, Emulated: n.Emulated,
		Up: way(up), Down: way(down), MTU: n.MTU, Seed: cmp.Or(n.Seed, seed),
	}
}

// recordedNetwork returns the cell's network in the form of records.
func recordedNetwork(n scenario.Network) record.Network {
	recorded := record.Network{Ports: n.Ports, TimeWaitReuse: n.TimeWaitReuse}
	if n.Linked() {
		up, down := n.Ways()
		recorded.DelayNS = int64(n.RoundTrip() / 2)
		recorded.Link, recorded.Up, recorded.Down = n.String(), way(up), way(down)
	}
	return recorded
}

func way(p scenario.Path) record.Way {
	return record.Way{
		DelayNS: int64(p.Delay), JitterNS: int64(p.Jitter),
		Loss: float64(p.Loss), BurstLoss: float64(p.BurstLoss.Share), BurstPackets: p.BurstLoss.Packets,
		Reorder: float64(p.Reorder), Duplicate: float64(p.Duplicate), Rate: int64(p.Rate), QueueBytes: int(p.Queue),
	}
}
