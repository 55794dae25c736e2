package lab

import (
	"cmp"
	"time"

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
		Up: path(up), Down: path(down), MTU: n.MTU, Seed: cmp.Or(n.Seed, seed),
	}
}

func path(p scenario.Path) link.Path {
	return link.Path{
		Delay: time.Duration(p.Delay), Jitter: time.Duration(p.Jitter),
		Loss: float64(p.Loss), Burst: link.Burst{Loss: float64(p.BurstLoss.Share), Packets: p.BurstLoss.Packets},
		Reorder: float64(p.Reorder), Duplicate: float64(p.Duplicate), Rate: int64(p.Rate), Queue: int(p.Queue),
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

// recordedLink returns what a link did in the form of records.
func recordedLink(counts link.Counts, seed uint64) *record.Link {
	up, down := counts.Up, counts.Down
	return &record.Link{
		Engine: string(counts.Engine), Seed: seed,
		Frames: up.Sent + down.Sent, Dropped: up.Overrun + down.Overrun,
		LateP50NS: int64(max(up.LateP50, down.LateP50)), LateP99NS: int64(max(up.LateP99, down.LateP99)),
		Up: linkWay(up), Down: linkWay(down),
	}
}

func linkWay(c link.PathCounts) *record.LinkWay {
	w := &record.LinkWay{
		Frames: c.Frames, Bytes: c.Bytes, Sent: c.Sent, Lost: c.Lost,
		Reordered: c.Reordered, Duplicated: c.Duplicated, Full: c.Dropped, Overrun: c.Overrun,
	}
	if c.DelayKnown {
		w.DelayP50NS, w.DelayP99NS = (*int64)(&c.DelayP50), (*int64)(&c.DelayP99)
		w.LateP50NS, w.LateP99NS = (*int64)(&c.LateP50), (*int64)(&c.LateP99)
	}
	return w
}
