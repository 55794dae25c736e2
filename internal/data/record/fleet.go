package record

// FleetWanted selects the agents of a fleet that measure a run.
type FleetWanted struct {
	Hub       string `json:"hub,omitempty"`        // its name or URL; empty: the hub on this machine
	TokenFile string `json:"token_file,omitempty"` // the file with the controller's token
	Server    string `json:"server,omitempty"`     // selects the server's agent; empty: the server is given
	Client    string `json:"client"`               // selects the clients' agents
}

// Fleet says which agents of a fleet ran a trial's ends, on machines of their own.
type Fleet struct {
	Server  Agent         `json:"server,omitzero"` // none if the server was given
	Clients []FleetClient `json:"clients"`
	// OpenedApartNS is the time between the first and the last opening of the clients' windows,
	// by the clocks that were compared.
	OpenedApartNS int64 `json:"opened_apart_ns"`
}

// Agent describes the agent that ran an end.
type Agent struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Machine string            `json:"machine"` // system, kernel and processor
	Boot    string            `json:"boot"`    // the same for agents of one machine
	Clock   Clock             `json:"clock"`
}

// A Clock compares an agent's clock with the lab's. Both are monotonic: they measure latencies, and
// setting the time of day does not move them. At each instant the agent's clock shows the lab's
// time plus OffsetNS, give or take ErrorNS.
type Clock struct {
	OffsetNS int64 `json:"offset_ns"` // after the trial
	ErrorNS  int64 `json:"error_ns"`  // half of the shortest exchange, before and after, and the drift
	DriftNS  int64 `json:"drift_ns"`  // of the offset, over the trial
	// WallNS is the difference between the agent's time of day and the lab's. Nothing depends on it.
	WallNS int64 `json:"wall_ns"`
}

// A FleetClient holds the figures of one of several clients; all other figures add the clients up.
// It has the figures that judge its trial, and no distributions.
type FleetClient struct {
	Agent

	Clients    int   `json:"clients"`
	BeginNS    int64 `json:"begin_ns"`  // of its window, after the begin of the first client's window
	WindowNS   int64 `json:"window_ns"` // pauses left out
	Requests   int64 `json:"requests"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed,omitempty"`
	Straddling int64 `json:"straddling"`

	StraddlingNS int64 `json:"straddling_ns,omitempty"`
	BacklogNS    int64 `json:"backlog_ns,omitempty"`

	InFlight    float64     `json:"in_flight"`
	Active      float64     `json:"active"`
	ServiceNS   int64       `json:"service_ns"`       // the sum of the service times
	P50NS       int64       `json:"p50_ns"`           // of the response times, like the next two
	P99NS       int64       `json:"p99_ns"`           //
	MaxNS       int64       `json:"max_ns"`           //
	WarmUp      WarmUp      `json:"warm_up"`          //
	Pacing      *Pacing     `json:"pacing,omitempty"` // open loop only
	Process     Process     `json:"process"`          //
	Connections Connections `json:"connections"`      // without distributions
	Engine      Engine      `json:"engine"`           //
	Host        HostState   `json:"host"`             // of its machine
	Limits      []Limit     `json:"limits,omitempty"` // likewise
	// SamplesFile is like SamplesFile of a record.
	SamplesFile string `json:"samples_file,omitempty"`
}
