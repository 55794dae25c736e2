package check

import (
	"cmp"
	"fmt"
	"math"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// generatorBound checks that the load generator was not the bottleneck.
func (t trial) generatorBound() record.Check {
	c := t.loadGenerator()
	// Calls of a naive client that fail at once, at a limit of the machine, keep
	// the client busy and the server idle. That collapse is its result.
	if met, _ := t.limited(); c.Level == record.Invalid && met > 0 && t.naive() {
		c.Level = record.Warning
	}
	// Another program's client is part of what is measured.
	if c.Level == record.Invalid && t.ClientProgram != "" {
		c.Level = record.Warning
		c.Detail += "; the CPU time of a call is not touched by that"
	}
	return c
}

func (t trial) loadGenerator() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	between := 0.0
	if span := t.Active * float64(t.WindowNS); span > 0 && t.Cell.Load.Model == "closed" {
		between = float64(t.Engine.BetweenNS) / span
	}
	outside := func() {
		c.Figure, c.Limit = &between, new(t.limits.Between.Invalid)
		verdict(&c, t.limits.Between.level(between), "the clients spent %s of their time outside of calls, in the load engine or off the CPU", percent(between))
	}
	if between > t.limits.Between.Invalid {
		outside()
		return c
	}
	client, server := t.Client.Busy, t.Server.Busy
	c.Figure, c.Limit = client, new(t.limits.Saturated)
	switch {
	case client != nil && *client >= t.limits.Saturated && t.Cell.Kind().MayFail && t.Failed() < t.Requests:
		verdict(&c, record.Invalid, "the client had %s of its CPUs busy: the figure is the client's, not the service's; ask less of it, with fewer clients of -c or a rate of --rps, or load from a machine with more CPUs", percent(*client))
	case client != nil && *client >= t.limits.Saturated && server == nil:
		verdict(&c, record.Warning, "the client had %s of its CPUs busy, and what the server had is not known: the figure may be the client's", percent(*client))
	case client != nil && *client >= t.limits.Saturated && *server < t.limits.Idle && t.Cell.Load.Model != burst:
		verdict(&c, record.Invalid, "the client had %s of its CPUs busy and the server %s: the figure is the client's, not the server's", percent(*client), percent(*server))
	case client != nil && *client >= t.limits.Saturated:
		verdict(&c, record.Warning, "the client's stack had all of its CPUs busy (%s; the server %s): both ends share in this figure", percent(*client), percent(*server))
	case between > t.limits.Between.Warning:
		outside()
	case client == nil:
		c.Level = record.Unknown
		c.Detail = "the client's CPU time is not known"
	default:
		c.Detail = fmt.Sprintf("the client had %s of its CPUs busy", percent(*client))
	}
	return c
}

// burst names the load model.
const burst = "burst"

// schedule checks that an open loop sent its requests on time.
func (t trial) schedule() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	p := t.Pacing
	if p == nil {
		c.Detail = "a closed loop keeps none"
		return c
	}
	if p.Scheduled == 0 {
		c.Level, c.Detail = record.Invalid, "no arrival fell into the window"
		return c
	}
	if p.Late.OnlyTotals() {
		c.Level, c.Detail = record.Unknown, "how late requests were sent is known in the mean only"
		return c
	}
	queued := float64(p.Queued) / float64(p.Scheduled)
	c.Figure, c.Limit = &queued, new(t.limits.Queued)
	late, lateP99 := quantiles(p.Late)
	service, _ := quantiles(t.Service)
	_, response := quantiles(*cmp.Or(t.Response, &t.Service))
	lateLimit := func(of float64) float64 { return max(t.limits.LateFloorNS, t.limits.LateShare*of) }
	tooLate := func(level record.Level, late, of float64) {
		c.Level, c.Unit = level, "us"
		c.Figure, c.Limit = new(late/1e3), new(lateLimit(of)/1e3)
	}
	switch {
	case late > lateLimit(service):
		// A burst leaves one request after the other; how long that takes is
		// part of it, and said.
		if tooLate(record.Invalid, late, service); t.Cell.Load.Model == burst {
			c.Level = record.Warning
		}
		c.Detail = fmt.Sprintf("the generator sent late by %.0f µs in the median, where a request takes %.0f µs", late/1e3, service/1e3)
	case response > 0 && lateP99 > lateLimit(response):
		tooLate(record.Warning, lateP99, response)
		c.Detail = fmt.Sprintf("the generator sent late by %.0f µs at P99: the tail of the response time, %.0f µs, is partly its own", lateP99/1e3, response/1e3)
	case queued > t.limits.Queued:
		verdict(&c, record.Warning, "%s of the arrivals found all %d clients busy and waited: response time has it, service time has not; more clients would send them", percent(queued), t.Cell.Clients)
	default:
		c.Detail = fmt.Sprintf("all %d arrivals were sent, late by %.1f µs in the median", p.Scheduled, late/1e3)
	}
	return t.searched(c)
}

// bookkeeping checks that the client's counts agree by Little's law: the calls in flight,
// those that ended, and their times. All three come from the same instants of its calls, so
// this finds a fault in the counting or a changed record, and nothing about the measurement
// itself. A call that straddles an edge of the window, or goes out on the other side of it
// than it was due, may count fully in one and not at all in another; the limit allows for
// that.
func (t trial) bookkeeping() record.Check {
	c := record.Check{Level: record.Invalid, Unit: "share"}
	if m := t.Cell.Load.Model; m == burst || m == "ramp" {
		c.Level, c.Detail = record.OK, "does not apply: a "+m+" is never steady"
		return c
	}
	if t.part != nil { // of whose times only the sum is known
		return t.law(c, t.part.ServiceNS)
	}
	if t.Service.Count != t.Requests {
		c.Detail = fmt.Sprintf("the record contradicts itself: %d requests, and %d service times", t.Requests, t.Service.Count)
		return c
	}
	if _, err := t.Service.Decode(); err != nil {
		c.Detail = "the service times cannot be read: " + err.Error()
		return c
	}
	return t.law(c, t.Service.Sum)
}

// law compares the calls that ended, and their time, with the calls in flight.
func (t trial) law(c record.Check, serviceNS int64) record.Check {
	busy := t.InFlight * float64(t.WindowNS)
	if t.Requests == 0 || t.Completed == 0 || busy <= 0 {
		c.Detail = "no call ended in the window"
		return c
	}
	mean := float64(serviceNS) / float64(t.Requests)
	product := float64(t.Completed) * mean
	straddled := float64(t.StraddlingNS)
	if straddled == 0 { // an older record: at most this
		straddled = float64(t.Straddling) * float64(t.Service.Max)
	}
	off := math.Abs(product-busy) / busy
	unlike := float64(t.Straddling)
	if t.Pacing != nil { // one that is sent after the window is measured, and not completed in it
		unlike = max(unlike, math.Abs(float64(t.Requests-t.Completed)))
	}
	limit := t.limits.Little + (unlike*mean+straddled+float64(t.BacklogNS))/busy
	c.Figure, c.Limit = &off, &limit
	c.Detail = fmt.Sprintf("the client counted %.4g calls in flight; throughput × mean service time gives %.4g (%d of %d calls straddle the window's edges)",
		t.InFlight, product/float64(t.WindowNS), t.Straddling, t.Completed)
	if off <= limit {
		c.Level = record.OK
	}
	return c
}

// evenness checks that all clients were at work until the end.
func (t trial) evenness() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	share := t.Active / float64(t.Cell.Clients)
	c.Figure, c.Limit = &share, new(t.limits.Active)
	c.Detail = fmt.Sprintf("%.4g of %d clients were at work in the mean", t.Active, t.Cell.Clients)
	if share < t.limits.Active {
		c.Level = record.Warning
		c.Detail += ": some had made all their requests long before others"
	}
	return c
}

// quantiles returns nanoseconds, or zero if too few requests lie beyond.
func quantiles(d latency.Distribution) (p50, p99 float64) {
	h, err := d.Decode()
	if err != nil {
		return 0, 0
	}
	if h.Count() >= stats.LeastCount(0.99) {
		p99 = float64(h.Quantile(0.99))
	}
	return float64(h.Quantile(0.5)), p99
}

// stretches is the number of parts into which a window is divided to see how its rate varies:
// with half as many, Student's t is a tenth wider; with more, single stalls fill a part.
const stretches = 20

// enoughRequests is the number of arrivals in a window that shows how the rate of its answers
// varies: with a hundred, each of 20 parts has five.
const enoughRequests = 100

// overload checks that an open loop offers no more than can be served. Otherwise its backlog
// grows, and its response times only show how long the window was. The check's figure is the
// rate that was served, its limit the one that was offered.
func (t trial) overload() record.Check {
	c := record.Check{Level: record.OK, Unit: "rps"}
	offered, steady := t.offeredPerSecond()
	if !steady {
		c.Detail = "does not apply: nothing is offered at a constant rate"
		return c
	}
	served, beyond, err := stats.Backlog{
		OfferedPerSecond: offered,
		ServedPerSecond:  t.ServedPerSecond(t.WindowNS, stretches),
		Grew:             t.grew(),
		Mean:             float64(cmp.Or(t.Response, &t.Service).Sum) / float64(t.WindowNS),
	}.BeyondCapacity()
	if err != nil { // a window that is too short to see its rate vary, or a record without its course
		served.Estimate = float64(t.Completed) / float64(t.WindowNS) * 1e9
	}
	// Where the rate of the answers is unknown, the requests decide that were neither answered
	// nor in flight when the window closed. Else a stall at its end would count as overload.
	if err != nil || t.Pacing.Scheduled < enoughRequests {
		beyond = beyond || t.grew()-t.InFlight > t.limits.Behind*float64(t.Pacing.Scheduled)
	}
	c.Figure, c.Limit = &served.Estimate, &offered
	verdict(&c, record.OK, "%s/s were offered, and %s/s answered", rate(offered), rate(served.Estimate))
	if beyond {
		verdict(&c, record.Invalid, "beyond capacity, which is about %s/s%s: %s/s were offered, and %.0f more requests arrived in the window than were answered, so that response times only tell how long it lasted",
			rate(served.Estimate), between(served, offered), rate(offered), t.grew())
		if t.Search != nil { // the step kept its goal all the same
			c.Level = record.Warning
		}
	}
	return c
}

// between writes the interval of the capacity if it says anything.
func between(i stats.Interval, offered float64) string {
	if i.Confidence == 0 || i.Low <= 0 || i.High >= offered {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", rate(i.Low), rate(i.High))
}

// rate writes a rate without an exponent.
func rate(perSecond float64) string {
	if perSecond >= 100 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.3g", perSecond)
}

// grew returns by how many requests the backlog grew over the window.
func (t trial) grew() float64 { return float64(t.Pacing.Scheduled - t.Completed) }

// offeredPerSecond returns the constant rate of the schedule, if there is one.
func (t trial) offeredPerSecond() (rate float64, steady bool) {
	load := t.Cell.Load
	if t.Pacing == nil || t.WindowNS <= 0 || load.Model == burst || load.Model == "ramp" {
		return 0, false
	}
	if load.Arrivals == "poisson" && load.RatePerSecond > 0 {
		return load.RatePerSecond, true
	}
	return float64(t.Pacing.Scheduled) / float64(t.WindowNS) * 1e9, true
}

// searched checks that a search measured at the rate that it kept. Records of the first
// versions may hold a higher rate that lost its vote.
func (t trial) searched(c record.Check) record.Check {
	const anotherRate = 0.005 // half of the precision at which searches stop
	if t.Search == nil || c.Level != record.OK || t.WindowNS <= 0 || t.Search.KeptPerSecond <= 0 {
		return c
	}
	measured := float64(t.Pacing.Scheduled) / float64(t.WindowNS) * 1e9
	off := math.Abs(measured/t.Search.KeptPerSecond - 1)
	// A schedule has a whole number of arrivals.
	if off > anotherRate+1/float64(t.Pacing.Scheduled) {
		c.Figure, c.Limit = &off, new(anotherRate)
		verdict(&c, record.Warning, "the search kept %.0f/s, and what was measured beside it is of %.0f/s: latency, CPU time and traffic are of that rate", t.Search.KeptPerSecond, measured)
	}
	return c
}
