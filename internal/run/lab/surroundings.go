package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
)

// A Fleet runs the ends of trials with agents on other machines.
type Fleet interface {
	// Stage takes agents for a trial whose client has the given number of callers, and compares
	// the agents' clocks with this machine's clock.
	Stage(ctx context.Context, callers int) (Stage, error)
	// Agents returns how many agents share the given number of callers.
	Agents(callers int) int
	// WhyAlone explains why the agents cannot run this many trials at the same time, or returns "".
	WhyAlone(trials int) string
}

// ErrTooFewAgents is wrapped by an error of Fleet.Stage that every further trial would meet, too.
var ErrTooFewAgents = errors.New("too few agents")

// A Stage starts the ends of a trial.
type Stage interface {
	// Address returns the address for a server to listen on.
	Address() string
	// Another returns a stage for another trial of the block, with the same agents.
	Another() Stage
	// ClocksApart compares the clocks again. It returns the largest possible difference between the
	// clocks of two clients until span is over. It is 0 for a single client.
	ClocksApart(ctx context.Context, span time.Duration) time.Duration
	// Limits returns the lowest limits of the machines that have clients.
	Limits() host.Limits
	// Start starts an end, as worker.Start does. A client may run on several machines: its result
	// then has parts. Instants of results are on this machine's clock.
	Start(ctx context.Context, l worker.Launch) (worker.TrialEnd, error)
	// End compares the clocks again. It fills in the record's agents and the paths of samples.
	End(ctx context.Context, r *record.Record) error
}

// surroundings holds the network of a trial, and the machine's limits in this network.
type surroundings struct {
	network *link.Network // nil: the machine's own network
	have    host.Limits
	stage   Stage // nil: the ends run on this machine
}

// listenAddress returns the address for the trial's server to listen on.
func (s *surroundings) listenAddress() string {
	switch {
	case s.stage != nil:
		return s.stage.Address()
	case s.network != nil:
		return s.network.Address + ":0"
	}
	return "127.0.0.1:0"
}

// linkSettings converts a network to settings of package link. seed replaces a missing seed.
func linkSettings(n scenario.Network, seed uint64) link.Settings {
	up, down := n.Directions()
	return link.Settings{
		Ports: n.Ports, TimeWaitReuse: n.TimeWaitReuse, Emulated: n.Emulated,
		Up: recordedWay(up), Down: recordedWay(down), MTU: n.MTU, Seed: cmp.Or(n.Seed, seed),
	}
}

// recordedNetwork returns the cell's network in the form of records.
func recordedNetwork(n scenario.Network) record.Network {
	recorded := record.Network{Ports: n.Ports, TimeWaitReuse: n.TimeWaitReuse}
	if n.HasLink() {
		up, down := n.Directions()
		recorded.DelayNS = int64(n.RoundTrip() / 2)
		recorded.Link, recorded.Up, recorded.Down = n.String(), recordedWay(up), recordedWay(down)
	}
	return recorded
}

func recordedWay(p scenario.Path) record.Way {
	return record.Way{
		DelayNS: int64(p.Delay), JitterNS: int64(p.Jitter),
		Loss: float64(p.Loss), BurstLoss: float64(p.BurstLoss.Share), BurstPackets: p.BurstLoss.Packets,
		Reorder: float64(p.Reorder), Duplicate: float64(p.Duplicate), Rate: int64(p.Rate), QueueBytes: int(p.Queue),
	}
}

// maxConnectionsPerSecond is more than any client opens on loopback: a bare TCP loop on two CPUs
// opens 13,000 connections per second.
const maxConnectionsPerSecond = 20_000

// trialDemand holds the properties of a trial that determine which machine limits it needs.
type trialDemand struct {
	clients    int
	connection scenario.Connection
	load       scenario.Load
	warmUp     time.Duration
	delay      time.Duration
	naive      bool
	apart      bool // the client is on another machine
}

// ports returns the largest number of ports that the connections occupy at one time. A closed
// connection keeps its port for timeWait.
func (d trialDemand) ports(timeWait time.Duration) int {
	open := d.connection.ConnectionCount(d.clients)
	if !d.connection.Mode.PerRequest() {
		return open
	}
	perSecond := float64(maxConnectionsPerSecond)
	if rate := recordedRates(d.load).HighestRate(); rate > 0 {
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
	if d.load.Model != scenario.Search { // a search has an unknown number of steps
		opened = min(opened, known+perSecond*d.warmUp.Seconds())
	}
	return open + int(opened)
}

// sources returns the number of local addresses for the client's connections. It assumes that
// closed connections keep their ports for a minute: such ports slow down the kernel's search for a
// free port.
func (d trialDemand) sources(have host.Limits) int {
	if d.naive || d.apart || have.Ports == 0 { // only on loopback a client has several addresses
		return 1
	}
	return conn.Sources{Connections: d.ports(time.Minute), Ports: int(have.Ports)}.Count()
}

// limits compares the trial's demand with the machine's limits.
func (d trialDemand) limits(have host.Limits) []record.Limit {
	sources := d.sources(have)
	ports := record.Limit{
		Name: "ports", Need: int64(d.ports(have.TimeWait)), Have: have.Ports * int64(sources),
		Note: fmt.Sprintf("the client has %d ports on each of %d addresses; a closed connection keeps its port for %v", have.Ports, sources, have.TimeWait),
	}
	if sources == 1 {
		ports.Note = fmt.Sprintf("the client has one address; a closed connection keeps its port for %v", have.TimeWait)
	}
	if d.naive {
		ports.Note = fmt.Sprintf("the client has one address, because of client=naive; a closed connection keeps its port for %v", have.TimeWait)
	}
	return []record.Limit{
		{
			Name: "descriptors", Need: int64(d.clients + otherFiles), Have: have.Files,
			Note: "per worker; raise the limit with ulimit -Hn, LimitNOFILE= or limits.conf",
		},
		ports,
		{
			Name: "backlog", Need: int64(d.clients), Have: have.Backlog,
			Note: "connections that the server has not accepted yet; raise the limit with sysctl net.core.somaxconn",
		},
		{
			Name: "udp-buffer", Need: host.QUICReceiveBuffer, Have: have.UDPReceive,
			Note: "bytes, for QUIC; raise the limit with sysctl net.core.rmem_max",
		},
	}
}

// otherFiles is the number of file descriptors of a worker besides its connections.
const otherFiles = 64

// CheckFiles returns an error if the part's clients need more connections than a process may have open.
func CheckFiles(part scenario.Part) error {
	return checkFiles(part, host.ReadLimits().Files)
}

func checkFiles(part scenario.Part, limit int64) error {
	clients := slices.Max(part.Clients)
	need := int64(part.Connection.ConnectionCount(clients) + otherFiles)
	if limit == 0 || need <= limit { // 0: unknown
		return nil
	}
	enough := int64(1024)
	for enough < need {
		enough *= 2
	}
	return fmt.Errorf("%s clients need %s open files, but this process may have %s: run `ulimit -n %d` before, or raise LimitNOFILE= or limits.conf; or use fewer clients, or share connections with --conn",
		units.Thousands(int64(clients)), units.Thousands(need), units.Thousands(limit), enough)
}

// startCountingDrops counts the packets and connections that the kernel drops in the server's
// network. since records the number of drops since the start.
func startCountingDrops(pid int) (since func(*record.HostState)) {
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
