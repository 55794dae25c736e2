package matrix

import (
	"cmp"
	"reflect"
	"slices"

	"wirelab.dev/internal/data/record"
)

// Cells describes the points of a run. It returns the remarks that all trials share as texts,
// and leaves them out of the cells.
func Cells(points []*Point, records []*record.Record, seed uint64) (cells []Cell, shared []string) {
	remarks := sharedRemarks(records)
	for _, p := range points {
		cells = append(cells, p.summarize(remarks, seed))
	}
	return cells, remarks.texts()
}

// summarize describes a point.
func (p *Point) summarize(shared remarks, seed uint64) Cell {
	valid := p.Valid()
	c := Cell{
		Cell: p.Cell, Key: p.Cell.Key(),
		Trials: len(p.Trials), Valid: len(valid),
		Findings: findings(p.Trials, shared),
		Warnings: warnings(p.Trials, shared),
	}
	for _, t := range p.Trials {
		c.Failure = cmp.Or(c.Failure, t.Failure)
		if SpoiledByMachine(t.Record) {
			c.Spoiled++
		}
		c.ForeignClient = c.ForeignClient || t.ClientProgram != ""
		c.Repeats = append(c.Repeats, t.repeat())
	}
	slices.SortFunc(c.Repeats, func(a, b Repeat) int { return cmp.Compare(a.Trial, b.Trial) })
	c.Survival = survivalOf(p.Measured())
	c.Capacity = capacityOf(p.Trials)
	if len(valid) == 0 {
		if refused := p.Measured(); len(refused) > 0 {
			c.Refused = len(refused)
			c.measure(refused, seed)
			if !c.Kind().InDetail { // else its user wants to see how it went
				c.Curve, c.Density, c.Course = nil, nil, nil
			}
			forgetIntervals(reflect.ValueOf(&c).Elem())
		}
		return c
	}
	c.measure(valid, seed)
	c.Findings = append(c.Findings, c.ResponseTimes().stallFinding()...)
	return c
}

func (t *Trial) repeat() Repeat {
	r := Repeat{Trial: t.Repeat, Valid: t.valid}
	if t.Failure == "" {
		r.Throughput = new(t.ThroughputPerSecond())
	}
	if t.response.count > 0 {
		r.MeanUS, r.P50, r.P99 = new(t.response.mean), new(t.response.quantile(0.5)), new(t.response.quantile(0.99))
	}
	return r
}

// forgetIntervals removes the intervals of a cell that is not valid: they would suggest
// that its figures can be trusted.
func forgetIntervals(v reflect.Value) {
	if figure, is := v.Addr().Interface().(*Figure); is {
		figure.Interval = nil
		return
	}
	for _, member := range v.Fields() {
		if member.Kind() == reflect.Pointer {
			member = member.Elem()
		}
		if member.Kind() == reflect.Struct {
			forgetIntervals(member)
		}
	}
}

func (c *Cell) measure(trials []Trial, seed uint64) {
	requested := survivalOf(trials)
	c.Requests, c.ErrorKinds = requested.Requests, requested.Failures
	for _, failure := range c.ErrorKinds {
		c.Errors += failure.Count
	}
	c.Traces, c.Traced = tracesOf(trials)
	c.Throughput = Over(trials, throughput)
	response := pool(trials, responseTimes)
	c.Service = pool(trials, serviceTimes).Latencies()
	if hasAll(trials, func(t Trial) bool { return t.Response != nil }) {
		c.Response = new(response.Latencies())
	}
	if hasAll(trials, func(t Trial) bool { return !knowsResponse(t.Record) }) {
		c.Response = unknownLatencies()
	}
	if hasAll(trials, func(t Trial) bool { return t.Wait != nil }) {
		c.Wait = new(pool(trials, waitTimes).Latencies())
	}
	c.P99OverP50, c.Curve, c.Density = response.Tail(), response.curve(), response.density()
	c.InFlight = Over(trials, func(t Trial) float64 { return t.ifOwnClient(t.InFlight) })
	c.WarmUp = Over(trials, warmUp)
	c.ClientCPU = Known(trials, CPUOf(ClientOf))
	c.ServerCPU = Known(trials, CPUOf(ServerOf))
	// The connections that a client opened are counted, not measured.
	c.Opened = Figure{Value: Over(trials, func(t Trial) float64 { return t.ifOwnClient(float64(t.Connections.Opened)) }).Value}
	c.Client = endOf(trials, ClientOf, ServerOf)
	c.Server = endOf(trials, ServerOf, ClientOf)
	c.Bound = c.bound()
	c.Connections = connectionsOf(c.Cell, trials)
	c.Traffic = trafficOf(trials)
	c.Wire = wireOf(trials)
	c.Bulk = bulkOf(trials)
	c.Drain = drainOf(c.Cell, trials)
	c.Course = courseOf(c.Cell, trials)
	c.Search = searchOf(c.Cell, trials, seed)
	c.FleetClients = fleetClients(trials)
	if c.Kind().InDetail {
		c.WindowSeconds, c.Spread, c.Statuses = shortestWindow(trials), response.spread(), statusesOf(trials)
		c.Messages, c.Named, c.Checking = messagesOf(trials), namedOf(trials), checkingOf(trials)
	}
}
