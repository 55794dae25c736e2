// Package worker is the process contract, and the end of it that starts workers. Package body
// holds what wirelab's own workers do.
//
// A worker is a process. It reads one JSON spec, a line, on standard input, and prints JSON
// events, one per line, on standard output:
//
//	server:  ready ......................... result   (when its input ends)
//	client:  ready  progress progress ...... result
//	any:     ... error
//
// Standard input stays open while the worker is wanted, and may bring controls of the load
// (Control), one per line. Its end tells the worker to stop, so that no worker outlives the
// process that started it. Messages for people go to standard error. docs/worker-contract.md
// describes the contract; package conform tests a worker against it.
//
// Server and client are always separate processes, so that each can be pinned, probed, killed,
// or written in another language. This package must not know the plan that a trial is part of,
// nor judge what it measured.
package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
)

// Contract is the version of the contract that this package implements. A worker
// refuses a spec of another version.
const Contract = 1

// MemoryLimit is the memory limit of a worker's Go runtime in bytes: above it the collector works
// harder. Without it, 500 large calls in flight would let the garbage grow past a gigabyte, and a
// trial must not take the machine down. GOMEMLIMIT overrides it.
const MemoryLimit = 800 << 20

// Role is the end of the wire that a worker plays.
type Role string

// The roles.
const (
	ServerRole Role = "server"
	ClientRole Role = "client"
	// CapabilitiesRole makes a worker print its capabilities and end.
	CapabilitiesRole Role = "capabilities"
	// SentinelRole watches the CPUs of both ends. Only wirelab's own program has it.
	SentinelRole Role = "sentinel"
)

// Spec tells a worker what to do.
type Spec struct {
	Contract int      `json:"contract"`
	Role     Role     `json:"role"`
	Stack    string   `json:"stack"` // the variant, as in tcp:buffers=pooled
	Workload Workload `json:"workload"`
	// Address is HOST:PORT: where a server listens (port 0: any), what a client dials.
	Address string      `json:"address"`
	Client  *ClientSpec `json:"client,omitempty"` // for clients only
	// Watch lists the CPUs that a sentinel watches.
	Watch []probe.SentinelCPU `json:"watch,omitempty"`
	// Probe names what is observed of the worker besides times. Most probes observe it from
	// outside; for "alloc" it counts its allocations, for "life" it keeps the instants of its
	// calls.
	Probe string `json:"probe,omitempty"`
	// ProfileCPU asks for the worker's call stacks on a CPU, since nothing outside can see them.
	ProfileCPU bool `json:"profile_cpu,omitempty"`
}

// Workload names the service and its parameters.
type Workload struct {
	// Name may carry options, as in users:op=get-user,work=0s.
	Name          string `json:"name"`
	RequestBytes  int    `json:"request_bytes"`
	ResponseBytes int    `json:"response_bytes"`
	// Definition holds what the workload needs besides its options.
	Definition string `json:"definition,omitempty"`
}

// A ClientSpec says what a client does once it is connected.
type ClientSpec struct {
	Clients    int    `json:"clients"`
	Connection string `json:"connection"` // a connection mode, as in pool:4
	Load       Load   `json:"load"`
	Seed       uint64 `json:"seed"`
	// SamplesFile is the Parquet file for every sample. Empty: none.
	SamplesFile string `json:"samples_file,omitempty"`
	// CallsFile is a file that a worker may write its calls to, instead of computing its
	// distributions.
	CallsFile string `json:"calls_file,omitempty"`
	// RootPEM is the root that a client over TLS trusts, from its server's ready
	// event. Empty: the roots of the system.
	RootPEM    string `json:"root_pem,omitempty"`
	SkipVerify bool   `json:"skip_verify,omitempty"` // trust any certificate
	// Live asks for what calls are like in each progress event. A worker may leave it out.
	Live bool `json:"live,omitempty"`
	// Sources is the number of IPv4 loopback addresses that its connections
	// come from, in turn. 0 or 1: the kernel chooses one.
	Sources int `json:"sources,omitempty"`
	// Group says that these clients are some of a larger group, whose other clients are of
	// other workers. The load is then that of the whole group, and the worker waits to be told
	// when to begin (GoControl) and when to open the window (OpenControl).
	Group *Group `json:"group,omitempty"`
	// IntervalNS is the time between two interval events, counted from the first call. 0: none.
	IntervalNS int64 `json:"interval_ns,omitempty"`
}

// A Group says which clients of a group a worker has, so that all workers of a group together
// send what a single worker with all clients would.
type Group = load.Group

// GroupOf returns the clients' group. If the spec names none, they are a group of their own.
func (c *ClientSpec) GroupOf() Group {
	if c.Group != nil {
		return *c.Group
	}
	return Group{Of: c.Clients}
}

// A Load says when requests are sent.
type Load struct {
	Model             scenario.LoadModel `json:"model"` // any but Sustained
	RequestsPerClient int                `json:"requests_per_client,omitempty"`
	ExtraRequests     int                `json:"extra_requests,omitempty"` // this many of the first clients measure one more
	DurationNS        int64              `json:"duration_ns,omitempty"`
	RatePerSecond     float64            `json:"rate_per_second,omitempty"`
	RampTo            float64            `json:"ramp_to,omitempty"`
	Burst             int                `json:"burst,omitempty"`
	GoalQuantile      float64            `json:"goal_quantile,omitempty"` // search: as in 0.99
	GoalNS            int64              `json:"goal_ns,omitempty"`
	Arrivals          string             `json:"arrivals,omitempty"` // constant or poisson
	InFlightLimit     int                `json:"in_flight_limit,omitempty"`
	WarmUpAtLeastNS   int64              `json:"warm_up_at_least_ns"`
	WarmUpAtMostNS    int64              `json:"warm_up_at_most_ns"`
	DrainNS           int64              `json:"drain_ns"`
}

// Event is one line of a worker's output. Only the pointer that Event names is set.
type Event struct {
	Event        string         `json:"event"` // ready, progress, interval, result, capabilities, error
	Ready        *Ready         `json:"ready,omitempty"`
	Progress     *live.Progress `json:"progress,omitempty"`
	Interval     *Interval      `json:"interval,omitempty"`
	Result       *Result        `json:"result,omitempty"`
	Capabilities *Capabilities  `json:"capabilities,omitempty"`
	Error        *Failure       `json:"error,omitempty"`
}

// Capabilities lists what a worker can do.
type Capabilities struct {
	Contract int    `json:"contract"`
	Roles    []Role `json:"roles"`
	// Stacks has the keys of each stack's options.
	Stacks    map[string][]string `json:"stacks"`
	Workloads []string            `json:"workloads"`
	// Loads and Connections are the models and modes of its clients.
	Loads       []scenario.LoadModel `json:"loads,omitempty"`
	Connections []string             `json:"connections,omitempty"`
	// Controls lists the controls that its clients obey while they run.
	Controls []Control `json:"controls,omitempty"`
}

// Ready reports that a server listens, or that a client is connected.
type Ready struct {
	Contract   int    `json:"contract"`
	Address    string `json:"address"` // the server's own, with its real port
	PID        int    `json:"pid"`
	Runtime    string `json:"runtime"` // language and version
	GoMaxProcs int    `json:"gomaxprocs,omitempty"`
	RootPEM    string `json:"root_pem,omitempty"` // a server over TLS: what its clients must trust
	// Congestion is the congestion control of a server's sockets; empty: unknown.
	Congestion string `json:"congestion,omitempty"`
	// Settings lists the settings of this end that are not a library's default.
	Settings []tuning.Setting `json:"settings,omitempty"`
}

// An Interval holds the calls that ended in a stretch of a client's life, warm-up and drain
// included.
type Interval struct {
	StartNS int64 `json:"start_ns"` // on the clock of the client's machine
	TookNS  int64 `json:"took_ns"`
	Ended   int64 `json:"ended"` // failed ones included
	Failed  int64 `json:"failed,omitempty"`
	// Histogram has the response times of those that ended: an HdrHistogram V2, compressed,
	// base64, with two digits.
	Histogram string `json:"hdr,omitempty"`
}

// A Failure says why a worker gives up.
type Failure struct {
	Message string `json:"message"`
}

// ParseSpec reads and checks a spec.
func ParseSpec(line []byte) (*Spec, error) {
	var s Spec
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, fmt.Errorf("worker spec: %w", err)
	}
	switch {
	case s.Contract != Contract:
		return nil, fmt.Errorf("worker spec: contract version %d: this worker implements version %d", s.Contract, Contract)
	case s.Role == SentinelRole || s.Role == CapabilitiesRole:
		return &s, nil
	case s.Role != ServerRole && s.Role != ClientRole:
		return nil, fmt.Errorf("worker spec: role %q: want %q, %q or %q", s.Role, ServerRole, ClientRole, CapabilitiesRole)
	case s.Role == ClientRole && s.Client == nil:
		return nil, fmt.Errorf("worker spec: role client without the part %q", "client")
	case s.Role == ClientRole && s.Client.Clients < 1:
		return nil, fmt.Errorf("worker spec: %d clients: want at least 1", s.Client.Clients)
	case s.Address == "":
		return nil, fmt.Errorf("worker spec: no address")
	case s.Role == ClientRole:
		if err := s.Client.check(); err != nil {
			return nil, fmt.Errorf("worker spec: %w", err)
		}
	}
	return &s, nil
}

const leastInterval = 100 * time.Millisecond

// check checks the clients' place in their group, and their intervals.
func (c *ClientSpec) check() error {
	g := c.GroupOf()
	switch interval := time.Duration(c.IntervalNS); {
	case g.First < 0 || g.Of < 1 || c.Clients > g.Of || g.First > g.Of-c.Clients:
		return fmt.Errorf("group: clients %d to %d are outside 0 to %d", g.First, g.First+c.Clients-1, g.Of-1)
	case c.Group != nil && c.Load.Model == scenario.Search:
		return errors.New("a search cannot be spread over the workers of a group: run it with one client worker")
	case interval != 0 && interval < leastInterval:
		return fmt.Errorf("intervals of %v: want %v at least, or 0 for none", interval, leastInterval)
	}
	return nil
}

func parseEvent(line []byte) (*Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	given := map[string]bool{
		"ready": e.Ready != nil, "progress": e.Progress != nil, "interval": e.Interval != nil, "result": e.Result != nil,
		"capabilities": e.Capabilities != nil, "error": e.Error != nil,
	}
	has, ok := given[e.Event]
	if !ok {
		return nil, fmt.Errorf("event %q: want ready, progress, interval, result, capabilities or error", e.Event)
	}
	if !has {
		return nil, fmt.Errorf("event %q without the part of that name", e.Event)
	}
	return &e, nil
}

// A Control is an order to a client that runs, as a line of its input after the spec:
// {"control":"end"}.
type Control string

// The controls.
const (
	// EndControl closes the window at once; calls that began in it are waited for.
	EndControl Control = "end"
	// PauseControl keeps callers from sending until ResumeControl.
	PauseControl  Control = "pause"
	ResumeControl Control = "resume"
	// GoControl makes a client of a group send its first call at an instant, and OpenControl
	// makes it open the window at one. Both instants are on the clock of the client's machine.
	GoControl   Control = "go"
	OpenControl Control = "open"
)

// An Order is a control with its instant, if it has one.
type Order struct {
	Control Control `json:"control"`
	AtNS    int64   `json:"at_ns,omitempty"`
}

// Instants holds the begin of each call and the time that it took.
type Instants [][2]int64

// MostInstants bounds the instants that a worker keeps: the last seconds of the fastest wire.
const MostInstants = 1 << 16

// Plus returns the instants of both in order, as far as MostInstants allows.
func (i Instants) Plus(other Instants) Instants {
	all := slices.Concat(i, other)
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return all[:min(len(all), MostInstants)]
}

// Within returns the calls that lie between two instants.
func (i Instants) Within(begin, end int64) Instants {
	var found Instants
	for _, one := range i {
		if begin <= one[0] && one[0]+one[1] <= end {
			found = append(found, one)
		}
	}
	return found
}

func (i Instants) shift(by int64) {
	for n := range i {
		i[n][0] += by
	}
}
