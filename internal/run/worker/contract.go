// Package worker defines the contract between wirelab and its worker processes, and starts
// workers. Package body implements wirelab's own workers.
//
// A worker is a process. It reads one line with a JSON spec from standard input, and prints JSON
// events, one per line, on standard output:
//
//	server:  ready ......................... result   (when its input ends)
//	client:  ready  progress progress ...... result
//	any:     ... error
//
// Standard input stays open while the worker is needed, and may bring controls of the load
// (Control), one per line. When the input ends, the worker must stop. Thus no worker outlives
// the process that started it. Messages for people go to standard error.
// docs/worker-contract.md describes the contract; package conform tests workers against it.
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

// MemoryLimit is the memory limit of a worker's Go runtime in bytes. Near the limit, the garbage
// collector runs more often. Without a limit, 500 large calls in flight could fill more than a
// gigabyte with garbage. GOMEMLIMIT overrides it.
const MemoryLimit = 800 << 20

// Role says what a worker does in a trial, for example serve or call.
type Role string

// The roles.
const (
	ServerRole Role = "server"
	ClientRole Role = "client"
	// CapabilitiesRole makes a worker print its capabilities and end.
	CapabilitiesRole Role = "capabilities"
	// SentinelRole makes wirelab's own worker watch the CPUs of both ends.
	SentinelRole Role = "sentinel"
)

// Spec tells a worker what to do.
type Spec struct {
	Contract int      `json:"contract"`
	Role     Role     `json:"role"`
	Stack    string   `json:"stack"` // the variant, for example tcp:buffers=pooled
	Workload Workload `json:"workload"`
	// Address is the HOST:PORT at which a server listens (port 0: any), or that a client dials.
	Address string      `json:"address"`
	Client  *ClientSpec `json:"client,omitempty"` // for clients only
	// Watch lists the CPUs that a sentinel watches.
	Watch []probe.SentinelCPU `json:"watch,omitempty"`
	// Probe names the probe of the trial. Most probes observe a worker from outside. For
	// "alloc" the worker counts its allocations, for "life" it keeps the instants of its calls.
	Probe string `json:"probe,omitempty"`
	// ProfileCPU asks the worker to sample its own call stacks, if no probe outside can do so.
	ProfileCPU bool `json:"profile_cpu,omitempty"`
}

// Workload names the service and its parameters.
type Workload struct {
	// Name may contain options, for example users:op=get-user,work=0s.
	Name          string `json:"name"`
	RequestBytes  int    `json:"request_bytes"`
	ResponseBytes int    `json:"response_bytes"`
	// Definition holds the workload's definition, for example of a user's own service.
	Definition string `json:"definition,omitempty"`
}

// A ClientSpec says what a client does once it is connected.
type ClientSpec struct {
	Clients    int    `json:"clients"`
	Connection string `json:"connection"` // a connection mode, for example pool:4
	Load       Load   `json:"load"`
	Seed       uint64 `json:"seed"`
	// SamplesFile is the Parquet file for all samples. Empty: no samples are kept.
	SamplesFile string `json:"samples_file,omitempty"`
	// CallsFile is a file that a worker may write its calls to, instead of computing its
	// distributions.
	CallsFile string `json:"calls_file,omitempty"`
	// RootPEM is the root certificate that a client over TLS trusts. Empty: the system's roots.
	RootPEM    string `json:"root_pem,omitempty"`
	SkipVerify bool   `json:"skip_verify,omitempty"` // trust any certificate
	// Live asks for figures of recent calls in each progress event. A worker may omit them.
	Live bool `json:"live,omitempty"`
	// Sources is the number of IPv4 loopback addresses that the client's connections
	// use in turn. 0 or 1: the kernel chooses one address.
	Sources int `json:"sources,omitempty"`
	// Group says that these clients are part of a larger group, which several workers share.
	// Load then describes the load of the whole group. The worker waits for the controls to
	// begin (GoControl) and to open the window (OpenControl).
	Group *Group `json:"group,omitempty"`
	// IntervalNS is the time between two interval events, counted from the first call. 0: none.
	IntervalNS int64 `json:"interval_ns,omitempty"`
}

// A Group says which clients of a group a worker has. Together, all workers of a group send the
// same requests as one worker with all clients.
type Group = load.Group

// GroupOrOwn returns the clients' group. If the spec has no group, its clients are the whole group.
func (c *ClientSpec) GroupOrOwn() Group {
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
	GoalQuantile      float64            `json:"goal_quantile,omitempty"` // of a search, for example 0.99
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
	// Stacks maps each stack to the keys of its options.
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
	Address    string `json:"address"` // the server's address, with its real port
	PID        int    `json:"pid"`
	Runtime    string `json:"runtime"` // language and version
	GoMaxProcs int    `json:"gomaxprocs,omitempty"`
	RootPEM    string `json:"root_pem,omitempty"` // the root certificate for clients of a server over TLS
	// Congestion is the congestion control of a server's sockets; empty: unknown.
	Congestion string `json:"congestion,omitempty"`
	// Settings lists the settings of this end that are not a library's default.
	Settings []tuning.Setting `json:"settings,omitempty"`
}

// An Interval counts the calls of a client that ended in a time interval, warm-up and drain
// included.
type Interval struct {
	StartNS int64 `json:"start_ns"` // on the clock of the client's machine
	TookNS  int64 `json:"took_ns"`
	Ended   int64 `json:"ended"` // failed calls included
	Failed  int64 `json:"failed,omitempty"`
	// Histogram holds the response times of the ended calls, with two significant digits: a
	// compressed HdrHistogram V2 in base64.
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
		return nil, fmt.Errorf("worker spec: the spec has contract version %d, but this worker implements version %d: use the same wirelab on both sides", s.Contract, Contract)
	case s.Role == SentinelRole || s.Role == CapabilitiesRole:
		return &s, nil
	case s.Role != ServerRole && s.Role != ClientRole:
		return nil, fmt.Errorf("worker spec: role %q: want %q, %q or %q", s.Role, ServerRole, ClientRole, CapabilitiesRole)
	case s.Role == ClientRole && s.Client == nil:
		return nil, fmt.Errorf("worker spec: the role is client, but the part %q is missing: add it", "client")
	case s.Role == ClientRole && s.Client.Clients < 1:
		return nil, fmt.Errorf("worker spec: %d clients: want at least 1", s.Client.Clients)
	case s.Address == "":
		return nil, fmt.Errorf("worker spec: the address is missing: want HOST:PORT")
	case s.Role == ClientRole:
		if err := s.Client.checkGroup(); err != nil {
			return nil, fmt.Errorf("worker spec: %w", err)
		}
	}
	return &s, nil
}

const minInterval = 100 * time.Millisecond

// checkGroup checks the clients' place in their group, and their intervals.
func (c *ClientSpec) checkGroup() error {
	g := c.GroupOrOwn()
	switch interval := time.Duration(c.IntervalNS); {
	case g.First < 0 || g.Of < 1 || c.Clients > g.Of || g.First > g.Of-c.Clients:
		return fmt.Errorf("the spec has the clients %d to %d, but its group has only 0 to %d", g.First, g.First+c.Clients-1, g.Of-1)
	case c.Group != nil && c.Load.Model == scenario.Search:
		return errors.New("a search cannot be spread over the workers of a group: run it with one client worker")
	case interval != 0 && interval < minInterval:
		return fmt.Errorf("interval_ns is %v: want at least %v, or 0 for no intervals", interval, minInterval)
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
		return nil, fmt.Errorf("the event %q is unknown: want ready, progress, interval, result, capabilities or error", e.Event)
	}
	if !has {
		return nil, fmt.Errorf("the event %q lacks the part %[1]q", e.Event)
	}
	return &e, nil
}

// A Control is an order to a running client. It is a line of the client's input after the spec,
// for example {"control":"end"}.
type Control string

// The controls.
const (
	// EndControl closes the window at once. The client still waits for calls of the window.
	EndControl Control = "end"
	// PauseControl keeps callers from sending until ResumeControl.
	PauseControl  Control = "pause"
	ResumeControl Control = "resume"
	// GoControl makes a client of a group send its first call at an instant. OpenControl makes it
	// open the window at an instant. Both instants are on the clock of the client's machine.
	GoControl   Control = "go"
	OpenControl Control = "open"
)

// A ControlOrder is a control with its instant, if it has one.
type ControlOrder struct {
	Control Control `json:"control"`
	AtNS    int64   `json:"at_ns,omitempty"`
}

// CallInstants holds the begin and the duration of each call, in nanoseconds.
type CallInstants [][2]int64

// MaxInstants bounds the calls whose instants a worker keeps: on the fastest stack, the calls of
// the last seconds.
const MaxInstants = 1 << 16

// Plus returns the instants of both in order, as far as MostInstants allows.
func (i CallInstants) Plus(other CallInstants) CallInstants {
	all := slices.Concat(i, other)
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return all[:min(len(all), MaxInstants)]
}

// BetweenInstants returns the calls that began and ended between two instants.
func (i CallInstants) BetweenInstants(begin, end int64) CallInstants {
	var found CallInstants
	for _, one := range i {
		if begin <= one[0] && one[0]+one[1] <= end {
			found = append(found, one)
		}
	}
	return found
}

func (i CallInstants) shiftBy(by int64) {
	for n := range i {
		i[n][0] += by
	}
}
