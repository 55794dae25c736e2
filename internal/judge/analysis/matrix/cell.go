package matrix

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
)

// A Cell holds the figures of one cell of the matrix, over its repeats. Each figure comes from the
// trials whose checks do not spoil it. If there are none, it comes from all trials. Such a figure is
// refused: it is only shown, it has no interval, and no verdict uses it.
//
// A figure is declared once, as a field here or in a struct below. Its tags decide where it
// appears. A table column or a condition of --fail-if for a figure that is no latency needs a line
// in show/report/table/columns.go or in analysis/condition.go.
//
//   - json: the name in --json, its schema and the page's types. It ends with the
//     unit (_us, _rps, _bytes, _share). The field's comment is the description.
//   - page: the name in the page's data, for fields that only the page has.
//   - interval:"-" leaves the interval out of the JSON.
//   - csv: the title of the column in CSV. For a struct, it is a pattern: each
//     field's title replaces the star. Without this tag there is no column.
//   - label: the name on the page, in the charts' menus or in the table of both
//     ends. A struct whose fields have labels has an empty label.
//   - unit: the unit, if the name does not end with it.
//   - quantile: the quantile that a latency holds.
//   - column: the title and priority of a latency's column on a terminal. Columns
//     with low priority are dropped first, and 9 is never dropped. A column
//     without a priority is shown only if the user asks for it.
//   - benchstat: the unit in benchstat's text.
type Cell struct {
	record.Cell
	Key string `json:"-" page:"key"` // names the cell within its run

	Requests   int64               `json:"requests"` // measured requests of all trials, including failed ones
	Errors     int64               `json:"errors"`   // failed requests
	ErrorKinds []record.ErrorCount `json:"error_kinds"`
	Bytes      *record.CallBytes   `json:"bytes,omitempty"` // bytes of the requests that got an answer, above TLS; absent if the client does not know them

	Throughput Figure     `json:"throughput_rps" csv:"throughput_rps" label:"Throughput"` // successful answers per second
	Service    Latencies  `json:"service_us" csv:"service_*_us" label:""`                 // service times, from the actual send
	Response   *Latencies `json:"response_us" csv:"response_*_us" label:""`               // response times, from the intended send; null in a closed loop without a limit, where they equal service_us
	Wait       *Latencies `json:"wait_us,omitempty" csv:"wait_*_us"`                      // wait for a permit of the in-flight limit, part of response_us; absent without a limit
	P99OverP50 Figure     `json:"p99_over_p50" csv:"p99_over_p50" label:"P99/P50"`        // P99 of response_us divided by P50
	ClientCPU  *Figure    `json:"client_cpu_us" csv:"client_cpu_us" label:"Client CPU"`   // CPU time per request; null if not measured
	ServerCPU  *Figure    `json:"server_cpu_us" csv:"server_cpu_us" label:"Server CPU"`   // CPU time per request; null if not measured
	InFlight   Figure     `json:"in_flight" csv:"in_flight"`                              // mean number of calls in flight over the window
	WarmUp     Figure     `json:"warm_up_ms" csv:"warm_up_ms"`                            // duration of the warm-up; 0 if there was none
	Opened     Figure     `json:"connections_opened" csv:"connections_opened"`

	Drain  *Figure `json:"drain_us" csv:"drain_us"`  // time until a burst's last answer; null for other loads
	Search *Search `json:"search,omitempty" csv:"*"` // the search for the highest rate; absent if the load has no search
	// Capacity is the rate of answers in overloaded trials. Such trials are invalid, because their
	// latency only shows how long they took.
	Capacity *Figure `json:"capacity_rps,omitempty" csv:"capacity_rps"` // absent if no trial was overloaded

	Traced int64   `json:"traced,omitempty"` // requests that a tracing system was asked to follow; absent if none was
	Traces []Trace `json:"traces,omitempty"` // traces of the slowest requests, slowest first

	Survival    Survival    `json:"survival" csv:"survival_*"`
	Connections Connections `json:"connections" csv:"*" label:""`
	Client      End         `json:"client" csv:"client_*" label:""`
	Server      End         `json:"server" csv:"server_*" label:""`
	Bound       Bound       `json:"bound" csv:"bound" jsonschema:"enum=server-cpu,enum=client-cpu,enum=waiting,enum="` // what limited a closed loop; empty if no cause is clear
	Traffic     *Traffic    `json:"traffic,omitempty" csv:"*"`                                                         // absent if it was not measured
	Wire        *Wire       `json:"wire,omitempty" csv:"wire_*"`                                                       // absent if it was not measured
	Bulk        *Bulk       `json:"bulk,omitempty"`                                                                    // absent if a call carries less than 1 MiB, or its bytes were not counted

	FleetClients []FleetClient `json:"fleet_clients,omitempty"` // results of each agent's client; absent if one machine's client made all calls

	Trials int `json:"trials"`       // trials with a record
	Valid  int `json:"valid_trials"` // trials with times that can be compared
	// Disturbed counts the valid trials whose times other programs lengthened. The times of a block's
	// trials can still be compared with each other.
	Disturbed int `json:"disturbed_trials"`
	// Spoiled counts the trials that are invalid only because of other programs.
	Spoiled int `json:"spoiled_trials"`
	Refused int `json:"-"` // number of trials that the refused times come from; 0 if a trial is valid

	Repeats []Repeat      `json:"-" page:"repeats"`
	Curve   []CurvePoint  `json:"-" page:"curve"`   // response time by percentile, as long as ten requests are slower, and the maximum
	Density []CurvePoint  `json:"-" page:"density"` // share of requests by response time, in twelve steps per doubling; empty with few requests
	Course  []CoursePoint `json:"-" page:"course"`  // course of the window; empty for bursts, searches and short windows

	// Only the page of a service shows these:

	WindowSeconds float64              `json:"-" page:"window_seconds"` // length of the shortest window; 0 if none was measured
	Spread        []SpreadStep         `json:"-" page:"spread"`         // requests by response time, from the fastest to the slowest
	Statuses      []record.StatusCount `json:"-"`
	Answers       *record.Answers      `json:"-"` // answers of calls that did not fail, by size; nil if no size is known

	Streams *Streams    `json:"streams,omitempty"` // absent unless the clients held streams
	Named   []CallTimes `json:"calls,omitempty"`   // figures by request, by a user's step, or by stage of the rate; absent if the calls have one name

	Addresses *Addresses `json:"addresses,omitempty"` // absent unless calls went to several addresses

	// Only the text about a service shows these:

	Messages *CallTimes       `json:"-"` // times of single messages in streams; nil if answers have one message
	Checking *record.Checking `json:"-"` // cost of checking the answers; nil if none were checked

	ForeignClient bool `json:"-"` // another program than the stack's client made the calls

	Failure  string    `json:"-"`
	Findings []Finding `json:"-"` // what the checks found, worst first
	Warnings []string  `json:"-"`
}

// IsValid reports whether the cell has a trial with times that can be compared.
func (c *Cell) IsValid() bool { return c.Valid > 0 }

// RefusesTimes reports whether the cell's times are only shown. Then valid times can be compared with
// other times of their blocks, but other programs lengthened them in half of the trials or more. If it
// were fewer, the spread between trials would show in the interval.
func (c *Cell) RefusesTimes() bool { return 2*c.Disturbed >= c.Valid }

// ResponseTimes returns the response times, or the service times if they are the same.
func (c *Cell) ResponseTimes() *Latencies { return cmp.Or(c.Response, &c.Service) }

// BothCPU returns the CPU time per request of both ends, or nil if one was not measured.
func (c *Cell) BothCPU() *Figure {
	if c.ClientCPU == nil || c.ServerCPU == nil {
		return nil
	}
	return &Figure{Value: c.ClientCPU.Value + c.ServerCPU.Value}
}

// HasFigures reports whether there are figures to show, valid or not.
func (c *Cell) HasFigures() bool { return c.Valid > 0 || c.Refused > 0 }

// A Repeat holds one trial of a cell, to show how far trials differ.
type Repeat struct {
	Trial      int      `json:"trial"`
	Valid      bool     `json:"valid"`
	Throughput *float64 `json:"throughput_rps" csv:"throughput_rps" label:"Throughput" jsonschema:"nullable"` // null if the trial failed
	MeanUS     *float64 `json:"mean_us" jsonschema:"nullable"`                                                // null if the trial failed or nothing was answered
	P50        *float64 `json:"p50_us" jsonschema:"nullable"`                                                 // P50 of the response time; null if the trial failed, or if fewer than ten requests are slower
	P99        *float64 `json:"p99_us" jsonschema:"nullable"`                                                 // P99 of the response time; null if the trial failed, or if fewer than ten requests are slower
}

// A Bound names what limited a closed loop.
type Bound string

// The bounds of a closed loop.
const (
	ByServerCPU  Bound = "server-cpu"
	ByClientCPU  Bound = "client-cpu"
	ByWaiting    Bound = "waiting" // waiting without CPU: a sleep, a link, a lock
	NoClearBound Bound = ""        // an open loop, or no clear bound
)

const (
	// BusyShare is the share of its CPUs from which an end counts as fully busy.
	BusyShare = 0.9
	// IdleShare is the busy share below which an end is not the limit, even if it works in bursts.
	IdleShare = 0.6
	// leastInCalls is the share of time in calls from which a client counts as always in a call.
	leastInCalls = 0.9
)

// bound returns what limited a cell. If the clients of a closed loop are always in calls, but the
// ends use little CPU time, waiting inside the calls limits the throughput.
func (c *Cell) bound() Bound {
	client, server := c.Client.Busy, c.Server.Busy
	switch {
	case c.Load.Model != "closed" || client == nil || server == nil:
		return NoClearBound
	case server.Value >= BusyShare && server.Value >= client.Value:
		return ByServerCPU
	case client.Value >= BusyShare:
		return ByClientCPU
	case client.Value < IdleShare && server.Value < IdleShare && c.InFlight.Value >= leastInCalls*float64(c.Clients):
		return ByWaiting
	}
	return NoClearBound
}

// Cells returns a cell for each point, and the remarks that all trials share.
func Cells(points []*Point, records []*record.Record, seed uint64) (cells []Cell, shared []string) {
	shared, fits := sharedRemarks(records), newCellFits(points)
	for _, p := range points {
		cells = append(cells, p.summarize(shared, seed, fits))
	}
	return cells, shared
}

func (p *Point) summarize(shared []string, seed uint64, fits cellFits) Cell {
	measured := p.MeasuredTrials()
	c := Cell{
		Cell: p.Cell, Key: p.Cell.Key(),
		Trials: len(p.Trials), Valid: len(p.TrialsWith(record.Times)),
		Findings: findings(p.Trials, shared),
		Warnings: warnings(p.Trials, shared),
	}
	for _, t := range p.Trials {
		c.Failure = cmp.Or(c.Failure, t.Failure)
		if SpoiledByMachine(t.Record) {
			c.Spoiled++
		}
		if t.Valid() && !t.has(record.AbsoluteTimes) {
			c.Disturbed++
		}
		c.ForeignClient = c.ForeignClient || t.ClientProgram != ""
		c.Repeats = append(c.Repeats, t.newRepeat())
	}
	slices.SortFunc(c.Repeats, func(a, b Repeat) int { return cmp.Compare(a.Trial, b.Trial) })
	c.Survival = survivalOf(measured)
	c.Capacity = capacityOf(p.Trials)
	if len(measured) == 0 {
		return c
	}
	c.setFigures(newUsable(measured), seed)
	c.setFits(p, fits)
	if c.Valid > 0 {
		c.Findings = append(c.Findings, c.ResponseTimes().stallFindings()...)
	} else if c.Refused = len(measured); !c.Kind().InDetail { // a detailed page also draws refused times
		c.Curve, c.Density, c.Course = nil, nil, nil
	}
	return c
}

func (t *Trial) newRepeat() Repeat {
	r := Repeat{Trial: t.Repeat, Valid: t.Valid()}
	if t.Failure == "" {
		r.Throughput = new(t.ThroughputPerSecond())
	}
	if t.response.count > 0 {
		r.MeanUS, r.P50, r.P99 = new(t.response.mean), new(t.response.quantile(0.5)), new(t.response.quantile(0.99))
	}
	return r
}

func (c *Cell) setFigures(from usable, seed uint64) {
	c.Requests, c.ErrorKinds = c.Survival.Requests, c.Survival.Failures
	for _, failure := range c.ErrorKinds {
		c.Errors += failure.Count
	}
	for _, t := range from.all {
		c.Bytes = sum.AddPresent(c.Bytes, t.Bytes)
	}
	c.Traces, c.Traced = tracesOf(from.all)
	timed := from.times
	c.Throughput = FigureOver(timed, throughput)
	response := poolTimes(timed, responseTimes)
	c.Service = poolTimes(timed, serviceTimes).Latencies()
	if everyTrial(timed, func(t Trial) bool { return t.Response != nil }) {
		c.Response = new(response.Latencies())
	}
	if everyTrial(timed, func(t Trial) bool { return !hasResponseTimes(t.Record) }) {
		c.Response = unknownLatencies()
	}
	if everyTrial(timed, func(t Trial) bool { return t.Wait != nil }) {
		c.Wait = new(poolTimes(timed, waitTimes).Latencies())
	}
	c.P99OverP50, c.Curve, c.Density = response.Tail(), response.curve(), response.density()
	c.InFlight = FigureOver(timed, func(t Trial) float64 { return t.ifOwnClient(t.InFlight) })
	c.WarmUp = FigureOver(from.all, warmUpMS)
	c.ClientCPU = KnownFigure(from.cpu, func(t Trial) float64 { return cpuOf(t, t.Client) })
	c.ServerCPU = KnownFigure(from.cpu, func(t Trial) float64 { return cpuOf(t, t.Server) })
	// The number of opened connections has no interval, because it is an exact count.
	c.Opened = Figure{Value: FigureOver(from.all, func(t Trial) float64 { return t.ifOwnClient(float64(t.Connections.Opened)) }).Value}
	c.Client = endOf(from, ClientOf, ServerOf)
	c.Server = endOf(from, ServerOf, ClientOf)
	c.Bound = c.bound()
	c.Connections = connectionsOf(c.Cell, from)
	c.Traffic = trafficOf(from)
	c.Wire = wireOf(from.bytes)
	c.Bulk = bulkOf(from)
	if c.Load.Burst > 0 { // a burst's window ends with the last answer
		c.Drain = new(FigureOver(timed, func(t Trial) float64 { return float64(t.WindowNS) / 1e3 }))
	}
	c.Course = courseOf(c.Cell, timed)
	c.Search = searchOf(c.Cell, timed, seed)
	c.FleetClients = fleetClients(timed)
	if c.Kind().InDetail {
		c.Spread, c.Messages, c.Named = response.spread(), messageTimes(timed), callTimes(timed, func(t Trial) ([]record.NamedCalls, []times) { return t.Named, t.named })
		c.Addresses = addressesOf(from.all, timed)
		c.Statuses = []record.StatusCount{}
		for _, t := range from.all {
			c.Statuses = record.PlusStatuses(c.Statuses, t.Statuses)
			c.Answers = sum.AddPresent(c.Answers, t.Answers)
			c.Checking = sum.AddPresent(c.Checking, t.Checking)
			c.Streams = c.Streams.plusTrial(t)
		}
		c.WindowSeconds = slices.Min(Values(from.all, func(t Trial) float64 { return float64(t.WindowNS) / 1e9 }))
	}
}
