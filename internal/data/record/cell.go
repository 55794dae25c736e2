package record

import (
	"cmp"
	"fmt"
	"strings"

	"wirelab.dev/internal/base/units"
)

// A Cell is the set-up of a trial: one point of a scenario's matrix. Trials with
// equal cells are repeats of one another.
type Cell struct {
	Part    string `json:"part"`    // of the scenario
	Stack   string `json:"stack"`   // the name alone
	Variant string `json:"variant"` // the stack with its options
	Place
	Connection string `json:"connection"` // shared, per-worker, pool or pool:N
	Load       Load   `json:"load"`
	Target     string `json:"target,omitempty"` // a server that wirelab did not start
	// Agents is the number of machines of a fleet that the clients are spread over; 0: they are
	// on this machine, with the server.
	Agents int `json:"agents,omitempty"`
	// Network is the trial's own network; the zero value is the machine's loopback.
	Network Network `json:"network,omitzero"`
	// the program that measured the cell, if wirelab only read its file; absent
	// if wirelab measured. With it, sizes and clients of 0 are unknown.
	Tool string `json:"tool,omitempty"`
}

// Key names the cell, as in `matrix/tcp:buffers=pooled/echo/64B/c=50`: its name in the plan. It is
// for people and for finding a cell again in its own run. Code that compares runs must compare
// whole cells, because the key has neither load nor connection.
func (c Cell) Key() string {
	switch {
	case c.Tool != "":
		return c.foreignKey()
	case c.Stack == ServiceStack:
		return fmt.Sprintf("%s/%s/%s/c=%d", c.Part, c.ShortVariant(), c.Workload, c.Clients)
	}
	return c.Place.Key(c.Part, c.Variant)
}

// Wire returns the wire of a service's calls, and the variant's other options.
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

// ShortVariant names the variant. It names a service by its wire, since all have the same stack.
func (c Cell) ShortVariant() string {
	if c.Stack != ServiceStack {
		return c.Variant
	}
	wire, others := c.Wire()
	return strings.Join(append([]string{wire}, others...), ",")
}

// foreignKey returns a key that begins with the tool. No part of wirelab's own has this name.
func (c Cell) foreignKey() string {
	clients := "c=?"
	if c.Clients > 0 {
		clients = fmt.Sprintf("c=%d", c.Clients)
	}
	return fmt.Sprintf("%s/%s/%s/%s", c.Part, c.Tool, strings.TrimPrefix(c.Workload, "/"), clients)
}

// A Place holds the workload, payload and clients with which variants of a part are compared.
// Places are compared with ==.
type Place struct {
	Workload string `json:"workload"` // the service that was called
	Payload
	Clients int `json:"clients"` // concurrent ones
}

// Key returns the key of a variant's cell at this place, as in
// `matrix/tcp:buffers=pooled/echo/64B/c=50`.
func (p Place) Key(part, variant string) string {
	return fmt.Sprintf("%s/%s/%s/%s/c=%d", part, variant, p.Workload, p.Payload.Key(), p.Clients)
}

// Compare orders places by payload and then by clients.
func (p Place) Compare(other Place) int {
	return cmp.Or(p.Payload.Compare(other.Payload), cmp.Compare(p.Clients, other.Clients))
}

// A Payload holds the payload sizes of one request and its response. It is zero if the
// workload decides.
type Payload struct {
	RequestBytes  int `json:"request_bytes"`  // of payload
	ResponseBytes int `json:"response_bytes"` // of payload
}

// Compare orders payloads by their requests, and then by their responses.
func (p Payload) Compare(other Payload) int {
	return cmp.Or(cmp.Compare(p.RequestBytes, other.RequestBytes), cmp.Compare(p.ResponseBytes, other.ResponseBytes))
}

// Text writes the size of the messages, and both with the separator where they differ.
func (p Payload) Text(size func(bytes int) string, separator string) string {
	if p.RequestBytes == p.ResponseBytes {
		return size(p.RequestBytes)
	}
	return size(p.RequestBytes) + separator + size(p.ResponseBytes)
}

// Key writes the payload as the names of cells have it: 64B, or 64B-4KiB.
func (p Payload) Key() string {
	return p.Text(func(bytes int) string { return units.Bytes(bytes, "") }, "-")
}

// A Network is a network namespace for one trial alone.
type Network struct {
	Ports         int   `json:"ports,omitempty"` // 0: as the kernel has it
	TimeWaitReuse bool  `json:"time_wait_reuse,omitempty"`
	DelayNS       int64 `json:"delay_ns,omitempty"` // each way, in the mean of both
	// Link is the text that asks for the link, as --link reads it; none without one.
	Link string `json:"link,omitempty"`
	// The wanted conditions from client to server, and back.
	Up   Way `json:"up,omitzero"`   // from client to server
	Down Way `json:"down,omitzero"` // and back
}

// Linked reports whether there was a link between the ends.
func (n Network) Linked() bool { return n.DelayNS > 0 || n.Link != "" }

// A Way says how a link must treat the packets of one direction.
type Way struct {
	DelayNS      int64   `json:"delay_ns,omitempty"`
	JitterNS     int64   `json:"jitter_ns,omitempty"`            // a delay is this longer or shorter at most
	Loss         float64 `json:"loss,omitempty"`                 // share of packets, each independently
	BurstLoss    float64 `json:"burst_loss,omitempty"`           // share of packets, in runs
	BurstPackets float64 `json:"burst_packets,omitempty"`        // mean length of a run
	Reorder      float64 `json:"reorder,omitempty"`              // share of packets that later ones overtake
	Duplicate    float64 `json:"duplicate,omitempty"`            // share of packets that arrive twice
	Rate         int64   `json:"rate_bits_per_second,omitempty"` // including Ethernet headers; 0: no limit
	QueueBytes   int     `json:"queue_bytes,omitempty"`          // that may wait for the rate; 0: the engine's own
}

// Load describes the load of a cell.
type Load struct {
	Model             string  `json:"model"`                         // closed, open, sustained, burst, ramp, search
	RequestsPerClient int     `json:"requests_per_client,omitempty"` // or
	TotalRequests     int     `json:"total_requests,omitempty"`      // of all clients together, or
	DurationNS        int64   `json:"duration_ns,omitempty"`
	RatePerSecond     float64 `json:"rate_per_second,omitempty"` // open: total; ramp: at its beginning
	RampTo            float64 `json:"ramp_to,omitempty"`         // ramp: the rate at its end
	Burst             int     `json:"burst,omitempty"`           // requests at one instant
	Goal              string  `json:"goal,omitempty"`            // search: as in p99<10ms
	Arrivals          string  `json:"arrivals,omitempty"`        // open: constant, poisson
	InFlightLimit     int     `json:"in_flight_limit,omitempty"`
}

// The load models of other programs' files, besides closed and open.
const (
	// Paced is a loop that waits for each answer, and for its rate: a server that is too
	// slow gets calls less often, and the delay of these calls is not measured.
	Paced = "paced"
	// UnknownLoad is the model of a load that the file does not describe.
	UnknownLoad = "unknown"
)

// ServiceStack is the stack of cells whose clients call a service of the user's own. Their
// variant names the wire, as in service:wire=h2, and their workload names the request.
const ServiceStack = "service"

// A Kind holds what differs between cells of wirelab's own stacks and cells of a user's service.
// Code that reads records asks for these properties, and never for the kind itself.
type Kind struct {
	VariantTitle string // of the column with the variants
	Command      string // of wirelab, that measures such cells

	// Properties of a server that wirelab neither made nor placed. Only the server
	// decides what it does, and how large its messages are.

	Unplaced bool // it runs where its user put it, so its unknown figures are no fault
	MayFail  bool // failures and closed connections are findings about the server; a client at its limit is not
	MayBeFew bool // a few requests are a measurement

	// Properties of the report.

	InDetail bool // statuses, spread and a fine course are shown, also of trials that are refused
	Alone    bool // no variant is chosen from several: the answer describes the service
}

var (
	stackKind   = &Kind{VariantTitle: "stack", Command: "compare"}
	serviceKind = &Kind{
		VariantTitle: "wire", Command: "load",
		Unplaced: true, MayFail: true, MayBeFew: true, InDetail: true, Alone: true,
	}
)

// Kind returns the properties of the cell's kind.
func (c Cell) Kind() *Kind {
	if c.Stack == ServiceStack {
		return serviceKind
	}
	return stackKind
}
