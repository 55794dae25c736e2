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
	// A naive client's calls that fail at once at a limit of the machine keep the client busy and
	// the server idle. This collapse is its result.
	if met, _ := t.limited(); c.Level == record.Invalid && met > 0 && t.naive() {
		c.Level = record.Warning
	}
	// Another program's client is part of the measurement.
	if c.Level == record.Invalid && t.ClientProgram != "" {
		c.Level = record.Warning
		c.Detail += "; the CPU time per call stays valid"
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
		verdict(&c, record.Warning, "the client had %s of its CPUs busy, and the server's share is unknown: the figure may be the client's", percent(*client))
	case client != nil && *client >= t.limits.Saturated && *server < t.limits.Idle && t.Cell.Load.Model != burst:
		verdict(&c, record.Invalid, "the client had %s of its CPUs busy and the server %s: the figure is the client's, not the server's", percent(*client), percent(*server))
	case client != nil && *client >= t.limits.Saturated:
		verdict(&c, record.Warning, "the client's stack had all of its CPUs busy (%s; the server %s): the figure includes both ends' limits", percent(*client), percent(*server))
	case between > t.limits.Between.Warning:
		outside()
	case client == nil:
		c.Level = record.Unknown
		c.Detail = "the client's CPU time is unknown"
	default:
		c.Detail = fmt.Sprintf("the client had %s of its CPUs busy", percent(*client))
	}
	return c
}

// burst is the name of the load model.
const burst = "burst"

// schedule checks that an open loop sent its requests on time.
func (t trial) schedule() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	p := t.Pacing
	if p == nil {
		c.Detail = "a closed loop has no schedule"
		return c
	}
	if p.Scheduled == 0 {
		c.Level, c.Detail = record.Invalid, "no arrival was due in the window"
		return c
	}
	if p.Late.OnlyTotals() {
		c.Level, c.Detail = record.Unknown, "only the mean lateness of requests is known"
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
		// A burst sends one request after the other. The time for that is part of the burst, and
		// is printed.
		if tooLate(record.Invalid, late, service); t.Cell.Load.Model == burst {
			c.Level = record.Warning
		}
		c.Detail = fmt.Sprintf("the generator sent late by %.0f µs in the median, and a request takes %.0f µs", late/1e3, service/1e3)
	case response > 0 && lateP99 > lateLimit(response):
		tooLate(record.Warning, lateP99, response)
		c.Detail = fmt.Sprintf("the generator sent late by %.0f µs at P99: the tail of the response time, %.0f µs, is partly its own", lateP99/1e3, response/1e3)
	case queued > t.limits.Queued:
		verdict(&c, record.Warning, "%s of the arrivals found all %d clients busy and waited: response time includes the wait, service time does not; use more clients", percent(queued), t.Cell.Clients)
	default:
		c.Detail = fmt.Sprintf("all %d arrivals were sent, late by %.1f µs in the median", p.Scheduled, late/1e3)
	}
	return t.searched(c)
}

// bookkeeping checks that the client's counts agree by Little's law: the calls in flight, the
// ended calls, and their times. All three come from the same instants, so a mismatch is a fault in
// the counting or a changed record, and shows nothing about the measurement. A call across an edge
// of the window, or sent on the other side of an edge than it was due, may count in one figure and
// not in another. The limit allows for that.
func (t trial) bookkeeping() record.Check {
	c := record.Check{Level: record.Invalid, Unit: "share"}
	if m := t.Cell.Load.Model; m == burst || m == "ramp" {
		c.Level, c.Detail = record.OK, "does not apply: a "+m+" is never steady"
		return c
	}
	if t.part != nil { // only the sum of its times is known
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

// law compares the ended calls and their times with the calls in flight.
func (t trial) law(c record.Check, serviceNS int64) record.Check {
	busy := t.InFlight * float64(t.WindowNS)
	if t.Requests == 0 || t.Completed == 0 || busy <= 0 {
		c.Detail = "no call ended in the window"
		return c
	}
	mean := float64(serviceNS) / float64(t.Requests)
	product := float64(t.Completed) * mean
	straddled := float64(t.StraddlingNS)
	if straddled == 0 { // an upper bound for older records
		straddled = float64(t.Straddling) * float64(t.Service.Max)
	}
	off := math.Abs(product-busy) / busy
	unlike := float64(t.Straddling)
	if t.Pacing != nil { // a call sent after the window is measured, but not completed in it
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

// windowParts is the number of parts of a window for the variation of its rate: with half as many,
// Student's t is a tenth wider; with more, a single stall fills a part.
const windowParts = 20

// enoughRequests is the number of arrivals from which a window shows the variation of its answer
// rate: with a hundred, each of 20 parts has five.
const enoughRequests = 100

// overload checks that an open loop offers no more than can be served. Otherwise its backlog
// grows, and its response times only show the length of the window. The check's figure is the
// served rate, its limit the offered one.
func (t trial) overload() record.Check {
	c := record.Check{Level: record.OK, Unit: "rps"}
	offered, steady := t.offeredPerSecond()
	if !steady {
		c.Detail = "does not apply: the load has no constant rate"
		return c
	}
	served, beyond, err := stats.Backlog{
		OfferedPerSecond: offered,
		ServedPerSecond:  t.ServedPerSecond(t.WindowNS, windowParts),
		Grew:             t.grew(),
		Mean:             float64(cmp.Or(t.Response, &t.Service).Sum) / float64(t.WindowNS),
	}.BeyondCapacity()
	if err != nil { // the window is too short, or the record has no course
		served.Estimate = float64(t.Completed) / float64(t.WindowNS) * 1e9
	}
	// If the rate of answers is unknown, the number of requests decides that were neither answered
	// nor in flight at the window's end. Otherwise a stall at the end would count as overload.
	if err != nil || t.Pacing.Scheduled < enoughRequests {
		beyond = beyond || t.grew()-t.InFlight > t.limits.Behind*float64(t.Pacing.Scheduled)
	}
	c.Figure, c.Limit = &served.Estimate, &offered
	verdict(&c, record.OK, "%s/s were offered, and %s/s answered", rate(offered), rate(served.Estimate))
	if beyond {
		verdict(&c, record.Invalid, "beyond capacity, which is about %s/s%s: %s/s were offered, and %.0f more requests arrived in the window than were answered, so response times only show how long it lasted",
			rate(served.Estimate), between(served, offered), rate(offered), t.grew())
		if t.Search != nil { // the step kept its goal despite that
			c.Level = record.Warning
		}
	}
	return c
}

// between writes the interval of the capacity if it is useful.
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

// grew returns the growth of the backlog over the window, in requests.
func (t trial) grew() float64 { return float64(t.Pacing.Scheduled - t.Completed) }

// offeredPerSecond returns the constant rate of the schedule, if it has one.
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

// searched checks that a search's other figures were measured at the kept rate. Records of the
// first versions may have them at a higher rate that was not kept.
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
		verdict(&c, record.Warning, "the search kept %.0f/s, but latency, CPU time and traffic were measured at %.0f/s", t.Search.KeptPerSecond, measured)
	}
	return c
}
