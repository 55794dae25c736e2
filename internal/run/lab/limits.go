package lab

import (
	"fmt"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack/catalog"
)

// fastestOpening is more connections per second than any client opens on
// loopback: a bare TCP loop on two CPUs makes 13,000.
const fastestOpening = 20_000

// demand describes what a trial needs of the machine.
type demand struct {
	clients    int
	connection scenario.Connection
	load       scenario.Load
	warmUp     time.Duration
	delay      time.Duration
	naive      bool
	apart      bool // the client is on another machine
}

func (t *trial) demand() demand {
	cell := t.planned.Cell
	return demand{
		clients: cell.Clients, connection: t.connection(), load: cell.Load,
		warmUp: time.Duration(cell.WarmUp.AtMost), delay: cell.Network.RoundTrip() / 2, naive: catalog.Naive(cell.Variant), apart: t.lab.Fleet != nil,
	}
}

// ports returns how many ports the connections hold at most, if a closed one keeps its
// port for timeWait.
func (d demand) ports(timeWait time.Duration) int {
	open := d.connection.Want(d.clients)
	if !d.connection.Mode.PerRequest() {
		return open
	}
	perSecond := float64(fastestOpening)
	if rate := max(d.load.Rate, d.load.To); rate > 0 {
		perSecond = rate
	}
	if d.delay > 0 { // a connection is a round trip at least
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

// sources returns the number of addresses of the client's connections. It assumes that
// ports are held for the full minute, even if the kernel frees them earlier: until then
// they slow down its search for a free one.
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
		Note: fmt.Sprintf("%d of each of %d addresses; a closed connection keeps its own for %v", have.Ports, sources, have.TimeWait),
	}
	if sources == 1 {
		ports.Note = fmt.Sprintf("of the client's one address; a closed connection keeps its own for %v", have.TimeWait)
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

// countDrops starts counting what the kernel drops in the server's network; since
// records the drops since then.
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
