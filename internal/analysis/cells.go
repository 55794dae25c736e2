package analysis

import (
	"cmp"
	"reflect"
	"slices"
)

// summarize describes a point.
func (p *point) summarize(shared remarks, seed uint64) Cell {
	valid := p.valid()
	c := Cell{
		Cell: p.cell, Key: p.cell.Key(),
		Trials: len(p.trials), Valid: len(valid),
		Findings: findings(p.trials, shared),
		Warnings: warnings(p.trials, shared),
	}
	for _, t := range p.trials {
		c.Failure = cmp.Or(c.Failure, t.Failure)
		c.ForeignClient = c.ForeignClient || t.ClientProgram != ""
		c.Repeats = append(c.Repeats, t.repeat())
	}
	slices.SortFunc(c.Repeats, func(a, b Repeat) int { return cmp.Compare(a.Trial, b.Trial) })
	c.Survival = survivalOf(p.measured())
	if len(valid) == 0 {
		if refused := p.measured(); len(refused) > 0 {
			c.Refused = len(refused)
			c.measure(refused, seed)
			forgetIntervals(reflect.ValueOf(&c).Elem())
		}
		return c
	}
	c.measure(valid, seed)
	for _, point := range p.merged.Percentiles() {
		c.Curve = append(c.Curve, CurvePoint{point.Quantile, float64(point.Value) / 1e3})
	}
	return c
}

func (t *trial) repeat() Repeat {
	r := Repeat{Trial: t.Repeat, Valid: t.valid}
	if t.Failure == "" {
		r.Throughput = new(t.ThroughputPerSecond())
	}
	if t.response.count > 0 {
		r.MeanUS, r.P50, r.P99 = &t.response.Mean.Value, &t.response.P50.Value, &t.response.P99.Value
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

func (c *Cell) measure(trials []trial, seed uint64) {
	requested := survivalOf(trials)
	c.Requests, c.ErrorKinds = requested.Requests, requested.Failures
	for _, failure := range c.ErrorKinds {
		c.Errors += failure.Count
	}
	c.Throughput = over(trials, throughput)
	c.Service = latencies(trials, func(t trial) times { return t.service })
	if hasAll(trials, func(t trial) bool { return t.Response != nil }) {
		c.Response = new(latencies(trials, func(t trial) times { return t.response }))
	}
	if hasAll(trials, func(t trial) bool { return t.Wait != nil }) {
		c.Wait = new(latencies(trials, func(t trial) times { return t.wait }))
	}
	c.P99OverP50 = over(trials, tailResponse)
	c.InFlight = over(trials, func(t trial) float64 { return t.ifOwnClient(t.InFlight) })
	c.WarmUp = over(trials, func(t trial) float64 { return float64(t.WarmUp.TookNS) / 1e6 })
	c.ClientCPU = known(trials, cpuOf(clientOf))
	c.ServerCPU = known(trials, cpuOf(serverOf))
	// The connections that a client opened are counted, not measured.
	c.Opened = Figure{Value: over(trials, func(t trial) float64 { return t.ifOwnClient(float64(t.Connections.Opened)) }).Value}
	c.Client = endOf(trials, clientOf, serverOf)
	c.Server = endOf(trials, serverOf, clientOf)
	c.Bound = c.bound()
	c.Connections = connectionsOf(c.Cell, trials)
	c.Traffic = trafficOf(trials)
	c.Wire = wireOf(trials)
	c.Drain = drainOf(c.Cell, trials)
	c.Course = courseOf(c.Cell, trials)
	c.Search = searchOf(c.Cell, trials, seed)
}

// latencies has no interval for the maximum. The maximum grows with the number of
// trials, so there is no true value to bound.
func latencies(trials []trial, of func(trial) times) Latencies {
	var all Latencies
	into := reflect.ValueOf(&all).Elem()
	for i := range into.NumField() {
		into.Field(i).Set(reflect.ValueOf(over(trials, func(t trial) float64 {
			return reflect.ValueOf(of(t).Latencies).Field(i).Interface().(Figure).Value
		})))
	}
	all.Max = Figure{}
	for _, t := range trials {
		all.Max.Value = max(all.Max.Value, of(t).Max.Value)
	}
	return all
}

func hasAll(trials []trial, has func(trial) bool) bool {
	return !slices.ContainsFunc(trials, func(t trial) bool { return !has(t) })
}
