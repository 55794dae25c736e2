// Package worker defines the contract between wirelab and its worker processes. It also starts
// workers. Package body implements wirelab's own workers.
//
// A worker is a process. It reads one line with a JSON spec from standard input, and prints JSON
// events, one per line, on standard output:
//
//	server:  ready ......................... result   (when its input ends)
//	client:  ready  progress progress ...... result
//	         ready  step step .............. result   (one of the clients of a search)
//	any:     ... error
//
// Standard input stays open while the worker is needed. It may carry controls of the load
// (Control), one per line. When the input ends, the worker must stop, so no worker outlives the
// process that started it. Messages for people go to standard error. docs/worker-contract.md
// describes the contract; package conform tests workers against it.
//
// Server and client are always separate processes. Each can then be pinned, probed or killed alone,
// and written in another language. This package must not know a run's plan, or judge a measurement.
package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/load"
)

// Contract is the version of this contract. A worker refuses a spec with another version.
const Contract = 1

// MemoryLimit is the memory limit of a worker's Go runtime, in bytes. Without a limit, 500 large
// calls in flight can leave more than a gigabyte of garbage. Near the limit, the garbage collector
// runs more often. GOMEMLIMIT overrides MemoryLimit.
const MemoryLimit = 800 << 20

// Role says what a worker does, for example serve or call.
type Role string

// The roles of workers.
const (
	ServerRole Role = "server"
	ClientRole Role = "client"
	// CapabilitiesRole makes a worker print its capabilities and exit.
	CapabilitiesRole Role = "capabilities"
	// SentinelRole makes wirelab's own worker watch the CPUs of the server and of the client.
	SentinelRole Role = "sentinel"
	// VisitRole makes wirelab's own worker make the first call to a user's service.
	VisitRole Role = "visit"
)

// Spec says what a worker must do.
type Spec struct {
	Contract int      `json:"contract"`
	Role     Role     `json:"role"`
	Stack    string   `json:"stack"` // a variant, for example tcp:buffers=pooled
	Workload Workload `json:"workload"`
	// Address is HOST:PORT. A server listens at Address (port 0 means any port); a client dials it.
	Address string      `json:"address"`
	Client  *ClientSpec `json:"client,omitempty"` // nil unless the role is client
	Visit   *VisitSpec  `json:"visit,omitempty"`  // nil unless the role is visit
	// Watch lists the CPUs that a sentinel must watch.
	Watch []probe.SentinelCPU `json:"watch,omitempty"`
	// Probe is the name of the trial's probe. Most probes observe a worker from outside. With
	// "alloc" the worker counts its allocations, with "life" it records the instants of calls.
	Probe string `json:"probe,omitempty"`
	// ProfileCPU asks the worker to sample its own call stacks, because no other process can.
	ProfileCPU bool `json:"profile_cpu,omitempty"`
	// Traces asks wirelab's own worker to write execution traces of itself to its file descriptor 3.
	Traces bool `json:"traces,omitempty"`
	// MarkChance makes such a worker trace itself the whole time, and mark each call with this chance. 0
	// means that it traces itself in turns.
	MarkChance float64 `json:"mark_chance,omitempty"`
}

// A VisitSpec says how to make the first call to the service that the workload defines.
type VisitSpec struct {
	Seed    uint64 `json:"seed"`               // seed of the load
	LimitNS int64  `json:"limit_ns,omitempty"` // time limit of a call; 0 means the default
	// Whole says that an answer is a whole even if it is a stream of events.
	Whole bool `json:"whole,omitempty"`
}

// Workload names a workload and sets its parameters.
type Workload struct {
	// Name is the workload's name, perhaps with options, as in users:op=get-user,work=0s.
	Name          string `json:"name"`
	RequestBytes  int    `json:"request_bytes"`
	ResponseBytes int    `json:"response_bytes"`
	// Definition defines the workload if its name does not, for example a user's own service.
	Definition string `json:"definition,omitempty"`
}

// A ClientSpec says what a client must do.
type ClientSpec struct {
	Clients    int    `json:"clients"`
	Connection string `json:"connection"` // a connection mode, for example pool:4
	Load       Load   `json:"load"`
	Seed       uint64 `json:"seed"`
	// SamplesFile is the Parquet file for all samples. Empty means that no samples are kept.
	SamplesFile string `json:"samples_file,omitempty"`
	// CallsFile is a file in which a worker may store its calls, for wirelab to compute figures.
	CallsFile string `json:"calls_file,omitempty"`
	// RootPEM is the root certificate that a client trusts. Empty means the system's roots.
	RootPEM    string `json:"root_pem,omitempty"`
	SkipVerify bool   `json:"skip_verify,omitempty"` // trust every certificate
	// Live asks for figures of recent calls in progress events. A worker may leave them out.
	Live bool `json:"live,omitempty"`
	// Sources is the number of IPv4 loopback addresses from which the client dials, in turn. 0 and
	// 1 let the kernel choose an address.
	Sources int `json:"sources,omitempty"`
	// Group says that these clients belong to a group that several workers share. Load is then the
	// load of the whole group. The worker waits for GoControl to begin the load, and for
	// OpenControl to open the window. In a search, it waits for StepControl before each step.
	Group *Group `json:"group,omitempty"`
	// Block says that the client takes turns with others: once it is warmed up it sends nothing, and
	// waits for its slices (SlicesControl), which are its window. A client of a group sends nothing
	// from the instant of OpenControl on.
	Block bool `json:"block,omitempty"`
	// IntervalNS is the length of the intervals in interval events. 0 means no such events.
	IntervalNS int64 `json:"interval_ns,omitempty"`
}

// A Group says which clients of a group a worker has. All workers of a group together send the same
// requests as one worker that has all clients.
type Group = load.Group

// GroupOrOwn returns the group of the clients. Without a group, the spec's clients are a group.
func (c *ClientSpec) GroupOrOwn() Group {
	if c.Group != nil {
		return *c.Group
	}
	return Group{Of: c.Clients}
}

// A Load says when requests are sent.
type Load struct {
	Model             scenario.LoadModel `json:"model"` // closed, open, burst, ramp or search
	RequestsPerClient int                `json:"requests_per_client,omitempty"`
	// ExtraRequests is the number of clients, the first ones, that measure one request more.
	ExtraRequests int `json:"extra_requests,omitempty"`
	// TotalRequests ends an open loop: this number of requests is due in the window, and none after it.
	TotalRequests int     `json:"total_requests,omitempty"`
	DurationNS    int64   `json:"duration_ns,omitempty"`
	RatePerSecond float64 `json:"rate_per_second,omitempty"`
	// Stages is the course of a ramp's rate.
	Stages []record.Stage `json:"stages,omitempty"`
	Burst  int            `json:"burst,omitempty"`
	// GoalQuantile is the quantile for which a search has a limit (GoalNS), for example 0.99.
	GoalQuantile    float64 `json:"goal_quantile,omitempty"`
	GoalNS          int64   `json:"goal_ns,omitempty"`
	Arrivals        string  `json:"arrivals,omitempty"` // constant or poisson
	InFlightLimit   int     `json:"in_flight_limit,omitempty"`
	WarmUpAtLeastNS int64   `json:"warm_up_at_least_ns"`
	WarmUpAtMostNS  int64   `json:"warm_up_at_most_ns"`
	DrainNS         int64   `json:"drain_ns"`
}

// Event is one line of a worker's output. Event names the one other field that is set.
type Event struct {
	// Event is ready, progress, interval, step, result, capabilities or error.
	Event        string         `json:"event"`
	Ready        *Ready         `json:"ready,omitempty"`
	Progress     *live.Progress `json:"progress,omitempty"`
	Interval     *Interval      `json:"interval,omitempty"`
	Step         *StepResult    `json:"step,omitempty"`
	Result       *Result        `json:"result,omitempty"`
	Capabilities *Capabilities  `json:"capabilities,omitempty"`
	Error        *Failure       `json:"error,omitempty"`
}

// Capabilities says what a worker can do.
type Capabilities struct {
	Contract int    `json:"contract"`
	Roles    []Role `json:"roles"`
	// Stacks holds the keys of each stack's options, by the name of the stack.
	Stacks    map[string][]string `json:"stacks"`
	Workloads []string            `json:"workloads"`
	// Lacks lists the workloads that a stack does not carry with their default options, by the name of
	// the stack.
	Lacks map[string][]string `json:"lacks,omitempty"`
	// Loads lists the load models that the worker's client supports.
	Loads []scenario.LoadModel `json:"loads,omitempty"`
	// Connections lists the connection modes that the worker's client supports.
	Connections []string `json:"connections,omitempty"`
	// Controls lists the controls that the worker's client obeys.
	Controls []Control `json:"controls,omitempty"`
}

// Ready says that a server listens, or that a client is connected.
type Ready struct {
	Contract   int    `json:"contract"`
	Address    string `json:"address"` // the server's address, with the real port
	PID        int    `json:"pid"`
	Runtime    string `json:"runtime"` // the language and its version
	GoMaxProcs int    `json:"gomaxprocs,omitempty"`
	RootPEM    string `json:"root_pem,omitempty"` // the root certificate that clients must trust
	// Congestion is the congestion control of a server's sockets. Empty means unknown.
	Congestion string `json:"congestion,omitempty"`
	// Settings lists the worker's settings that differ from a library's default.
	Settings []tuning.Setting `json:"settings,omitempty"`
}

// An Interval counts a client's calls that ended in an interval, even in the warm-up or the drain.
type Interval struct {
	StartNS int64 `json:"start_ns"` // on the monotonic clock of the client's machine
	TookNS  int64 `json:"took_ns"`
	Ended   int64 `json:"ended"` // includes failed calls
	Failed  int64 `json:"failed,omitempty"`
	// Histogram holds the response times of the calls, with two significant digits. It is a
	// compressed HdrHistogram V2, in base64.
	Histogram string `json:"hdr,omitempty"`
}

// A StepResult is what one of the clients of a search measured in a step.
type StepResult struct {
	Number int `json:"number"`
	// Client has the measurement alone. It is nil if the step was told to end.
	Client *ClientResult `json:"client,omitempty"`
}

// A Failure says why a worker cannot do its work.
type Failure struct {
	Message string `json:"message"`
}

// ParseSpec parses a spec and checks it.
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
	case s.Role == VisitRole && s.Visit == nil:
		return nil, errors.New("worker spec: the role is visit, but the part visit is missing: add it")
	case s.Role != ServerRole && s.Role != ClientRole && s.Role != VisitRole:
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

// checkGroup checks that the clients fit into their group, and that the intervals are long enough.
func (c *ClientSpec) checkGroup() error {
	g := c.GroupOrOwn()
	switch interval := time.Duration(c.IntervalNS); {
	case g.First < 0 || g.Of < 1 || c.Clients > g.Of || g.First > g.Of-c.Clients:
		return fmt.Errorf("the spec has the clients %d to %d, but its group has only 0 to %d", g.First, g.First+c.Clients-1, g.Of-1)
	case c.Block && (c.Load.Model != scenario.Closed && c.Load.Model != scenario.Open || c.Load.WarmUpAtMostNS <= 0 || c.Load.DurationNS <= 0):
		return errors.New("a client of a block needs a closed or open load with a duration and a warm-up")
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
		"ready": e.Ready != nil, "progress": e.Progress != nil, "interval": e.Interval != nil, "step": e.Step != nil, "result": e.Result != nil,
		"capabilities": e.Capabilities != nil, "error": e.Error != nil,
	}
	has, ok := given[e.Event]
	if !ok {
		return nil, fmt.Errorf("the event %q is unknown: want ready, progress, interval, step, result, capabilities or error", e.Event)
	}
	if !has {
		return nil, fmt.Errorf("the event %q lacks the part %[1]q", e.Event)
	}
	return &e, nil
}

// A Control is an order to a running client. The client's input carries each control as a line
// after the spec, for example {"control":"end"}.
type Control string

// The controls.
const (
	// EndControl closes the window at once. The client still waits for the calls in flight.
	EndControl Control = "end"
	// PauseControl stops callers from sending requests until ResumeControl.
	PauseControl  Control = "pause"
	ResumeControl Control = "resume"
	// GoControl sets the instant of the first call, on the clock of the client's machine.
	GoControl Control = "go"
	// OpenControl sets the instant at which the window opens, or a client of a block rests, on the same
	// clock as GoControl.
	OpenControl Control = "open"
	// SlicesControl gives a client of a block (ClientSpec.Block) its slices, and the instant at
	// which the last slice of the block ends: until then the client prints no result.
	SlicesControl Control = "slices"
	// StepControl gives a client of a group that searches its next step, and the instant of the
	// step's first call. The client prints a step event when it has measured the step.
	StepControl Control = "step"
)

// A ControlOrder is a control, with an instant, slices or a step if the control needs them.
type ControlOrder struct {
	Control Control      `json:"control"`
	AtNS    int64        `json:"at_ns,omitempty"`
	Slices  []load.Slice `json:"slices,omitempty"`
	Step    *load.Step   `json:"step,omitempty"`
}

// ShiftClock returns the order with all instants shifted by by, onto another machine's clock.
func (o ControlOrder) ShiftClock(by int64) ControlOrder {
	if o.AtNS != 0 {
		o.AtNS += by
	}
	o.Slices = lists.Map(o.Slices, func(s load.Slice) load.Slice {
		return load.Slice{Send: s.Send + by, From: s.From + by, To: s.To + by}
	})
	return o
}

// CallInstants holds, for each call, the instant at which it began and its duration in nanoseconds.
type CallInstants [][2]int64

// MaxInstants bounds the calls whose instants a worker keeps: often those of the last seconds.
const MaxInstants = 1 << 16

// Plus returns the calls of both lists, sorted by their beginnings. It keeps at most MaxInstants.
func (i CallInstants) Plus(other CallInstants) CallInstants {
	all := slices.Concat(i, other)
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return all[:min(len(all), MaxInstants)]
}

// BetweenInstants returns the calls that both began and ended between two instants.
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
