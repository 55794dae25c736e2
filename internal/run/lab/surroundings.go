package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
)

// A Fleet runs the ends of trials with agents on other machines.
type Fleet interface {
	// Stage takes agents for a trial whose client has that number of callers, and compares
	// their clocks with this machine's.
	Stage(ctx context.Context, callers int) (Stage, error)
	// Agents returns the number of agents that share that number of callers.
	Agents(callers int) int
}

// ErrTooFewAgents is wrapped by the error of a stage that every further trial would meet, too.
var ErrTooFewAgents = errors.New("too few agents")

// A Stage starts the ends of a trial.
type Stage interface {
	// Address returns the address for a server to listen at.
	Address() string
	// Limits returns the lowest limits of the machines that have clients.
	Limits() host.Limits
	// Start starts an end, as worker.Start does. A client may be one of several machines
	// together: its result then has parts. Instants of results are on this machine's clock.
	Start(ctx context.Context, l worker.Launch) (worker.End, error)
	// End compares the clocks again, and fills in the agents' descriptions and the paths of their
	// samples.
	End(ctx context.Context, r *record.Record) error
}

// surroundings are the network of a trial and the machine's limits in it.
type surroundings struct {
	network *link.Network // nil: the machine's own
	have    host.Limits
	stage   Stage // nil: the ends run on this machine
}

// listenAddress returns the address that the trial's server listens at.
func (s *surroundings) listenAddress() string {
	switch {
	case s.stage != nil:
		return s.stage.Address()
	case s.network != nil:
		return s.network.Address + ":0"
	}
	return "127.0.0.1:0"
}

// settings returns a network as settings of package link. seed replaces a missing seed.
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

// fastestOpening is more connections per second than any client opens on
// loopback: a bare TCP loop on two CPUs makes 13,000.
const fastestOpening = 20_000

// demand describes the limits that a trial depends on.
type demand struct {
	clients    int
	connection scenario.Connection
	load       scenario.Load
	warmUp     time.Duration
	delay      time.Duration
	naive      bool
	apart      bool // the client is on another machine
}

// ports returns the most ports that connections hold if a closed one keeps its port for timeWait.
func (d demand) ports(timeWait time.Duration) int {
	open := d.connection.Want(d.clients)
	if !d.connection.Mode.PerRequest() {
		return open
	}
	perSecond := float64(fastestOpening)
	if rate := max(d.load.Rate, d.load.To); rate > 0 {
		perSecond = rate
	}
	if d.delay > 0 { // a connection takes at least a round trip
		perSecond = min(perSecond, float64(d.clients)/(2*d.delay).Seconds())
	}
	opened := perSecond * timeWait.Seconds()
	known := float64(max(d.load.Total, d.load.Requests*d.clients)) // in the window
	if d.load.Duration > 0 {
		known = perSecond * time.Duration(d.load.Duration).Seconds()
	}
	if d.load.Model != scenario.Search { // its number of steps is unknown
		opened = min(opened, known+perSecond*d.warmUp.Seconds())
	}
	return open + int(opened)
}

// sources returns the number of addresses of the client's connections. It assumes that ports are
// held for the full minute: until then they slow down the kernel's search for a free one.
func (d demand) sources(have host.Limits) int {
	if d.naive || d.apart || have.Ports == 0 { // only loopback has more addresses than one
		return 1
	}
	return conn.Sources{Connections: d.ports(time.Minute), Ports: int(have.Ports)}.Count()
}

// limits compares the trial's demand with the machine's limits.
func (d demand) limits(have host.Limits) []record.Limit {
	sources := d.sources(have)
	ports := record.Limit{
		Name: "ports", Need: int64(d.ports(have.TimeWait)), Have: have.Ports * int64(sources),
		Note: fmt.Sprintf("%d ports on each of %d addresses; a closed connection keeps its port for %v", have.Ports, sources, have.TimeWait),
	}
	if sources == 1 {
		ports.Note = fmt.Sprintf("on the client's one address; a closed connection keeps its port for %v", have.TimeWait)
	}
	if d.naive {
		ports.Note = fmt.Sprintf("the client is naive: one address; a closed connection keeps its port for %v", have.TimeWait)
	}
	const others = 64 // descriptors of a worker that are not connections
	return []record.Limit{
		{
			Name: "descriptors", Need: int64(d.clients + others), Have: have.Files,
			Note: "of each worker; raise it with ulimit -Hn, LimitNOFILE= or limits.conf",
		},
		ports,
		{
			Name: "backlog", Need: int64(d.clients), Have: have.Backlog,
			Note: "connections that the server has not accepted yet; raise it with sysctl net.core.somaxconn",
		},
		{
			Name: "udp-buffer", Need: host.WantUDPReceive, Have: have.UDPReceive,
			Note: "bytes, for QUIC; raise it with sysctl net.core.rmem_max",
		},
	}
}

// countDrops counts what the kernel drops in the server's network; since records it.
func countDrops(pid int) (since func(*record.HostState)) {
	before, err := host.ReadDrops(pid)
	if err != nil {
		return func(*record.HostState) {}
	}
	return func(h *record.HostState) {
		now, err := host.ReadDrops(pid)
		if err != nil {
			return
		}
		drops := now.Since(before)
		h.AcceptDrops, h.UDPDrops = &drops.Accept, &drops.UDP
	}
}
