package record

import (
	"cmp"
	"fmt"
	"strings"

	"wirelab.dev/internal/base/units"
)

// A Cell is the set-up of a trial: one point of a scenario's matrix. Trials with equal cells are
// repeats of the same measurement.
type Cell struct {
	Part    string `json:"part"`    // name of the scenario's part
	Stack   string `json:"stack"`   // name of the stack without options
	Variant string `json:"variant"` // stack with its options
	Place
	Connection string `json:"connection"` // shared, per-worker, pool or pool:N
	Load       Load   `json:"load"`
	Target     string `json:"target,omitempty"` // address of a server that wirelab did not start
	// Agents is the number of machines of a fleet that run the clients. 0 means that clients and
	// server run on this machine.
	Agents int `json:"agents,omitempty"`
	// Unpinned says that client and server could both use all CPUs of the trial.
	Unpinned bool `json:"unpinned,omitempty"`
	// Network is the trial's own network. The zero value means the machine's loopback.
	Network Network `json:"network,omitzero"`
	// Tool is the program that measured the cell, if wirelab only read that program's file. It is
	// absent if wirelab measured. With a Tool, sizes and clients of 0 mean unknown.
	Tool string `json:"tool,omitempty"`
}

// Key returns the cell's name in the plan, as in `matrix/tcp:buffers=pooled/echo/64B/c=50`. Use it
// for display and to find a cell in its own run. Code that compares runs must compare whole cells,
// because the key leaves out load and connection.
func (c Cell) Key() string {
	switch {
	case c.Tool != "":
		return c.foreignKey()
	case c.Stack == ServiceStack:
		return fmt.Sprintf("%s/%s/%s", c.Part, c.ShortVariant(), afterPath(fmt.Sprintf("%s/c=%d", c.Workload, c.Clients)))
	}
	return c.Place.Key(c.Part, c.Variant)
}

// afterPath separates the number of clients from a path that ends with a slash.
func afterPath(key string) string { return strings.Replace(key, "//c=", "/ c=", 1) }

// Wire returns the wire protocol of a service's calls, and the other options of the variant.
func (c Cell) Wire() (wire string, others []string) {
	for option := range strings.SplitSeq(strings.TrimPrefix(c.Variant, c.Stack+":"), ",") {
		if name, is := strings.CutPrefix(option, "wire="); is {
			wire = name
		} else {
			others = append(others, option)
		}
	}
	return wire, others
}

// ShortVariant returns a short name of the variant. For a service it is the wire alone, because
// all service cells have the same stack.
func (c Cell) ShortVariant() string {
	if c.Stack != ServiceStack {
		return c.Variant
	}
	wire, others := c.Wire()
	return strings.Join(append([]string{wire}, others...), ",")
}

// foreignKey returns a key that begins with the tool's name. No scenario has a part with this name.
func (c Cell) foreignKey() string {
	clients := "c=?"
	if c.Clients > 0 {
		clients = fmt.Sprintf("c=%d", c.Clients)
	}
	return fmt.Sprintf("%s/%s/%s/%s", c.Part, c.Tool, strings.TrimPrefix(c.Workload, "/"), clients)
}

// A Place holds the workload, payload and clients with which variants of a part are compared. Code
// compares places with ==.
type Place struct {
	Workload string `json:"workload"` // name of the called service
	Payload
	Clients int `json:"clients"` // number of concurrent clients
}

// Key returns the key of the variant's cell at this place, as in
// `matrix/tcp:buffers=pooled/echo/64B/c=50`.
func (p Place) Key(part, variant string) string {
	return fmt.Sprintf("%s/%s/%s/%s/c=%d", part, variant, p.Workload, p.Payload.Key(), p.Clients)
}

// Compare orders places by payload, then by clients.
func (p Place) Compare(other Place) int {
	return cmp.Or(p.Payload.Compare(other.Payload), cmp.Compare(p.Clients, other.Clients))
}

// A Payload holds the payload sizes of a request and its response. It is zero if the workload
// decides the sizes.
type Payload struct {
	RequestBytes  int `json:"request_bytes"`  // payload size of a request
	ResponseBytes int `json:"response_bytes"` // payload size of a response
}

// Compare orders payloads by request size, then by response size.
func (p Payload) Compare(other Payload) int {
	return cmp.Or(cmp.Compare(p.RequestBytes, other.RequestBytes), cmp.Compare(p.ResponseBytes, other.ResponseBytes))
}

// Text formats the payload. It writes equal sizes once, others with the separator.
func (p Payload) Text(size func(bytes int) string, separator string) string {
	if p.RequestBytes == p.ResponseBytes {
		return size(p.RequestBytes)
	}
	return size(p.RequestBytes) + separator + size(p.ResponseBytes)
}

// Key returns the payload as it stands in a cell's key: 64B, or 64B-4KiB.
func (p Payload) Key() string {
	return p.Text(func(bytes int) string { return units.Bytes(bytes, "") }, "-")
}

// A Network describes a network namespace that only one trial uses.
type Network struct {
	// Number of local ports; 0 means the kernel's default.
	Ports         int  `json:"ports,omitempty"`
	TimeWaitReuse bool `json:"time_wait_reuse,omitempty"`
	// Delay in each direction: the mean of both directions.
	DelayNS int64 `json:"delay_ns,omitempty"`
	// Link is the link's text form, as --link reads it. It is empty if there is no link.
	Link string `json:"link,omitempty"`
	// Up and Down are the requested conditions of the two directions.
	Up   Way `json:"up,omitzero"`   // from client to server
	Down Way `json:"down,omitzero"` // from server to client
}

// Linked reports whether a link connects client and server.
func (n Network) Linked() bool { return n.DelayNS > 0 || n.Link != "" }

// A Way holds the requested treatment of the packets of one direction.
type Way struct {
	DelayNS int64 `json:"delay_ns,omitempty"`
	// Greatest deviation of a packet's delay from the configured delay.
	JitterNS int64   `json:"jitter_ns,omitempty"`
	Loss     float64 `json:"loss,omitempty"` // share of packets that are lost independently
	// Share of packets that are lost in runs.
	BurstLoss    float64 `json:"burst_loss,omitempty"`
	BurstPackets float64 `json:"burst_packets,omitempty"` // mean number of packets in a run
	// Share of packets that later packets overtake.
	Reorder   float64 `json:"reorder,omitempty"`
	Duplicate float64 `json:"duplicate,omitempty"` // share of packets that arrive twice
	// Rate limit, including Ethernet headers; 0 means none.
	Rate int64 `json:"rate_bits_per_second,omitempty"`
	// Size of the queue before the rate limit; 0 means the engine's default.
	QueueBytes int `json:"queue_bytes,omitempty"`
}

// Load describes the load of a cell.
type Load struct {
	Model string `json:"model"` // closed, open, sustained, burst, ramp or search
	// Requests of each client; absent if another key limits the load.
	RequestsPerClient int   `json:"requests_per_client,omitempty"`
	TotalRequests     int   `json:"total_requests,omitempty"` // requests of all clients together
	DurationNS        int64 `json:"duration_ns,omitempty"`
	// Total rate of an open load; initial rate of a ramp.
	RatePerSecond float64 `json:"rate_per_second,omitempty"`
	RampTo        float64 `json:"ramp_to,omitempty"` // final rate of a ramp
	Stages        Stages  `json:"stages,omitempty"`  // of a ramp with several stages, as in 30s:100,2m:500
	// Number of requests that a burst sends at once.
	Burst int `json:"burst,omitempty"`
	// Goal of a search, such as p99<10ms.
	Goal string `json:"goal,omitempty"`
	// Arrivals of an open load: constant or poisson.
	Arrivals      string `json:"arrivals,omitempty"`
	InFlightLimit int    `json:"in_flight_limit,omitempty"`
}

// The load models that only files of other programs have.
const (
	// Paced means that a client waits for each answer, and then for its rate. If the server is
	// slow, it receives fewer calls, and the delay of late calls is not measured.
	Paced = "paced"
	// UnknownLoad means that the file does not describe the load.
	UnknownLoad = "unknown"
)

// ServiceStack is the stack name of cells that call a user's own service. The variant names the
// wire, as in service:wire=h2, and the workload names the request.
const ServiceStack = "service"

// VersionOption is the option of a service's variant in a run that compares two versions of a service.
// Its values are BaseVersion and HeadVersion.
const (
	VersionOption = "version"
	BaseVersion   = "base"
	HeadVersion   = "head"
)

// Version returns BaseVersion or HeadVersion, or "" if the run does not compare versions of a service.
func (c Cell) Version() string {
	if c.Stack != ServiceStack {
		return ""
	}
	_, others := c.Wire()
	for _, option := range others {
		if version, is := strings.CutPrefix(option, VersionOption+"="); is {
			return version
		}
	}
	return ""
}

// A Kind holds the properties in which cells of wirelab's stacks and cells of a user's service
// differ. Code that reads records uses these properties, and does not ask for the kind itself.
type Kind struct {
	VariantTitle string // title of the column with the variants
	Command      string // wirelab command that measures such cells
	Noun         string // the user's word for such a cell

	// Properties of a server that wirelab did not start. Only the server decides about its work
	// and the size of its messages.

	Unplaced bool // the user chose the server's CPUs, so unknown figures of the server are no fault
	// Failures and closed connections are findings; reaching a client's limit is still a fault.
	MayFail  bool
	MayBeFew bool // a few requests are enough for a measurement

	// Properties of the report.

	// The report shows statuses, spread and figures over time, also for invalid trials.
	InDetail bool
	Alone    bool // the report describes one service and does not compare variants
}

var (
	stackKind   = &Kind{VariantTitle: "stack", Command: "compare", Noun: "cell"}
	serviceKind = &Kind{
		VariantTitle: "wire", Command: "load", Noun: "load",
		Unplaced: true, MayFail: true, MayBeFew: true, InDetail: true, Alone: true,
	}
	versionKind = func() *Kind {
		compared := *serviceKind
		compared.Alone = false
		return &compared
	}()
)

// Kind returns the properties of this kind of cell.
func (c Cell) Kind() *Kind {
	switch {
	case c.Version() != "":
		return versionKind
	case c.Stack == ServiceStack:
		return serviceKind
	}
	return stackKind
}
