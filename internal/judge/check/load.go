package check

import (
	"cmp"
	"fmt"
	"math"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// checkGeneratorBound checks that the load generator was not the bottleneck.
func (t trial) checkGeneratorBound() record.Check {
	c := t.checkLoadGenerator()
	// A naive client's calls fail at once at a limit of the machine. Such calls keep the client busy
	// and the server idle. For a naive client this is a valid result.
	if met, _ := t.countMachineLimitFailures(); c.Level == record.Invalid && met > 0 && t.hasNaiveClient() {
		c.Level = record.Warning
	}
	// A client that is another program is part of what is measured, so its limit is only a warning.
	if c.Level == record.Invalid && t.ClientProgram != "" {
		c.Level = record.Warning
		c.Detail += "; the CPU time per call is still valid"
	}
	return c
}

func (t trial) checkLoadGenerator() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	between := 0.0
	if span := t.Active * float64(t.WindowNS); span > 0 && t.Cell.Load.Model == "closed" {
		between = float64(t.Engine.BetweenNS) / span
	}
	outside := func() {
		c.Figure, c.Limit = &between, new(t.limits.Between.Invalid)
		setVerdict(&c, t.limits.Between.level(between), "the clients spent %s of their time between calls: in the load engine, or waiting for a CPU", units.Percent(between))
	}
	if between > t.limits.Between.Invalid {
		outside()
		return c
	}
	client, server := t.Client.Busy, t.Server.Busy
	c.Figure, c.Limit = client, new(t.limits.Saturated)
	switch {
	case client != nil && *client >= t.limits.Saturated && t.Cell.Kind().MayFail && t.Failed() < t.Requests:
		setVerdict(&c, record.Invalid, "the client used %s of its CPUs: the result shows the client's limit, not the service's; use fewer clients (-c), a lower rate (--rps) or a machine with more CPUs", units.Percent(*client))
	case client != nil && *client >= t.limits.Saturated && server == nil:
		setVerdict(&c, record.Warning, "the client used %s of its CPUs, and the server's share is unknown: the result may show the client's limit", units.Percent(*client))
	case client != nil && *client >= t.limits.Saturated && *server < t.limits.Idle && t.Cell.Load.Model != burstModel:
		setVerdict(&c, record.Invalid, "the client used %s of its CPUs, and the server %s: the result shows the client's limit, not the server's", units.Percent(*client), units.Percent(*server))
	case client != nil && *client >= t.limits.Saturated:
		setVerdict(&c, record.Warning, "the client's stack used almost all of its CPUs (%s; the server %s): the result shows limits of both ends", units.Percent(*client), units.Percent(*server))
	case between > t.limits.Between.Warning:
		outside()
	case client == nil:
		c.Level = record.Unknown
		c.Detail = "the client's CPU time is unknown"
	default:
		c.Detail = fmt.Sprintf("the client used %s of its CPUs", units.Percent(*client))
	}
	return c
}

// burstModel is the name of the load model for bursts.
const burstModel = "burst"

// checkSchedule checks that an open loop sent its requests on time.
func (t trial) checkSchedule() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	p := t.Pacing
	if p == nil {
		c.Detail = "a closed loop has no schedule"
		return c
	}
	if p.Scheduled == 0 {
		c.Level, c.Detail = record.Invalid, "no request was scheduled in the window: raise the rate or measure longer"
		return c
	}
	if p.Late.OnlyTotals() {
		c.Level, c.Detail = record.Unknown, "only the mean lateness of requests is known"
		return c
	}
	queued := float64(p.Queued) / float64(p.Scheduled)
	c.Figure, c.Limit = &queued, new(t.limits.Queued)
	late, lateP99 := medianAndP99(p.Late)
	service, _ := medianAndP99(t.Service)
	_, response := medianAndP99(*cmp.Or(t.Response, &t.Service))
	lateLimit := func(of float64) float64 { return max(t.limits.LateFloorNS, t.limits.LateShare*of) }
	tooLate := func(level record.Level, late, of float64) {
		c.Level, c.Unit = level, "us"
		c.Figure, c.Limit = new(late/1e3), new(lateLimit(of)/1e3)
	}
	switch {
	case late > lateLimit(service):
		// A burst sends one request after the other, so lateness is part of it.
		if tooLate(record.Invalid, late, service); t.Cell.Load.Model == burstModel {
			c.Level = record.Warning
		}
		c.Detail = fmt.Sprintf("the load generator sent requests late, by %.0f µs in the median, and a request takes %.0f µs", late/1e3, service/1e3)
	case response > 0 && lateP99 > lateLimit(response):
		tooLate(record.Warning, lateP99, response)
		c.Detail = fmt.Sprintf("the load generator sent requests late, by %.0f µs at P99: this lateness is part of the response time's P99, %.0f µs", lateP99/1e3, response/1e3)
	case queued > t.limits.Queued:
		setVerdict(&c, record.Warning, "%s of the scheduled requests waited, because no client was free (of %d): response time includes the wait, service time does not; use more clients", units.Percent(queued), t.Cell.Clients)
	default:
		c.Detail = fmt.Sprintf("all %d scheduled requests were sent, %.1f µs late in the median", p.Scheduled, late/1e3)
	}
	return t.checkSearchedRate(c)
}

// checkBookkeeping checks by Little's law that the client's counts agree: the calls in flight, the
// ended calls, and their times. The client takes these counts at the same instants, so a mismatch
// proves a fault in the counting or a changed record. The limit allows for calls that began or
// ended outside of the window, because some counts omit such calls.
func (t trial) checkBookkeeping() record.Check {
	c := record.Check{Level: record.Invalid, Unit: "share"}
	if m := t.Cell.Load.Model; m == burstModel || m == "ramp" {
		c.Level, c.Detail = record.OK, "does not apply: a "+m+" is never steady"
		return c
	}
	if t.part != nil { // for one client of a fleet, only the sum of its times is known
		return t.checkLittlesLaw(c, t.part.ServiceNS)
	}
	if t.Service.Count != t.Requests {
		c.Detail = fmt.Sprintf("the record contradicts itself: it has %d requests, but %d service times", t.Requests, t.Service.Count)
		return c
	}
	if _, err := t.decode(&t.Service); err != nil {
		c.Detail = "the record's service times cannot be read: " + err.Error()
		return c
	}
	return t.checkLittlesLaw(c, t.Service.Sum)
}

// checkLittlesLaw compares the ended calls and their times with the calls in flight.
func (t trial) checkLittlesLaw(c record.Check, serviceNS int64) record.Check {
	busy := t.InFlight * float64(t.WindowNS)
	if t.Requests == 0 || t.Completed == 0 || busy <= 0 {
		c.Detail = fmt.Sprintf("no call ended in the window, and %s were under way: measure longer, or look why the server does not answer", units.Number(t.InFlight))
		return c
	}
	mean := float64(serviceNS) / float64(t.Requests)
	product := float64(t.Completed) * mean
	straddled := float64(t.StraddlingNS)
	if straddled == 0 { // older records lack this time, so use an upper bound
		straddled = float64(t.Straddling) * float64(t.Service.Max)
	}
	off := math.Abs(product-busy) / busy
	unlike := float64(t.Straddling)
	if t.Pacing != nil { // a scheduled call that is sent after the window counts as a request only
		unlike = max(unlike, math.Abs(float64(t.Requests-t.Completed)))
	}
	limit := t.limits.Little + (unlike*mean+straddled+float64(t.BacklogNS))/busy
	c.Figure, c.Limit = &off, &limit
	c.Detail = fmt.Sprintf("the client counted %s calls in flight; throughput × mean service time gives %s (%d of %d calls began or ended outside of the window)",
		units.Number(t.InFlight), units.Number(product/float64(t.WindowNS)), t.Straddling, t.Completed)
	if off <= limit {
		c.Level = record.OK
	}
	return c
}

// checkEvenness checks that all clients were at work until the end.
func (t trial) checkEvenness() record.Check {
	c := record.Check{Level: record.OK, Unit: "share"}
	share := t.Active / float64(t.Cell.Clients)
	c.Figure, c.Limit = &share, new(t.limits.Active)
	c.Detail = fmt.Sprintf("on average, %s of %d clients were at work", units.Number(t.Active), t.Cell.Clients)
	if share < t.limits.Active {
		c.Level = record.Warning
		c.Detail += ": some clients finished long before others"
	}
	return c
}

// medianAndP99 returns P50 and P99 in nanoseconds, each zero if it is unknown.
func medianAndP99(d latency.Distribution) (p50, p99 float64) {
	h, err := d.Decode()
	if err != nil {
		return 0, 0
	}
	if h.Count() >= stats.LeastCountForQuantile(0.99) {
		p99 = float64(h.Quantile(0.99))
	}
	return float64(h.Quantile(0.5)), p99
}

// windowParts is the number of equal parts whose rates show how the rate varies in a window. With
// half as many parts, an interval is a tenth wider. With more parts, one stall can fill a part.
const windowParts = 20

// leastScheduled is the least number of scheduled requests for judging how the answer rate varies.
// Then each of the window's 20 parts has five requests.
const leastScheduled = 100

// checkOverload checks that an open loop sends no more requests than the server can answer.
// Otherwise the backlog grows, and response times only show the length of the window. The check's
// figure is the rate of answers, and its limit is the rate of requests.
func (t trial) checkOverload() record.Check {
	c := record.Check{Level: record.OK, Unit: "rps"}
	offered, steady := t.offeredPerSecond()
	if !steady {
		c.Detail = "does not apply: the load has no constant rate"
		return c
	}
	served, beyond, err := stats.Backlog{
		OfferedPerSecond: offered,
		ServedPerSecond:  t.ServedPerSecond(t.WindowNS, windowParts),
		Grew:             t.backlogGrowth(),
		Mean:             float64(cmp.Or(t.Response, &t.Service).Sum) / float64(t.WindowNS),
	}.BeyondCapacity()
	if err != nil { // the window is too short, or the record has no course
		served.Estimate = float64(t.Completed) / float64(t.WindowNS) * 1e9
	}
	// If the rate of answers is unknown, count the requests that were neither answered nor in
	// flight at the window's end. Calls in flight do not count: they may be due to a short stall.
	if err != nil || t.Pacing.Scheduled < leastScheduled {
		beyond = beyond || t.backlogGrowth()-t.InFlight > t.limits.Behind*float64(t.Pacing.Scheduled)
	}
	c.Figure, c.Limit = &served.Estimate, &offered
	setVerdict(&c, record.OK, "%s/s requests were scheduled, and %s/s were answered", rateText(offered), rateText(served.Estimate))
	if beyond {
		setVerdict(&c, record.Invalid, "the load exceeds the capacity, which is about %s/s%s: %s/s requests were scheduled, and %.0f of them were not answered in the window, so response times only show how long the overload lasted; use a lower rate",
			rateText(served.Estimate), capacityInterval(served, offered), rateText(offered), t.backlogGrowth())
		if t.Search != nil { // the search accepted this rate despite the overload
			c.Level = record.Warning
		}
	}
	return c
}

// capacityInterval returns the capacity's interval as text, or "" if the interval reaches the
// offered rate.
func capacityInterval(i stats.Interval, offered float64) string {
	if i.Confidence == 0 || i.Low <= 0 || i.High >= offered {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", rateText(i.Low), rateText(i.High))
}

func rateText(perSecond float64) string {
	if perSecond >= 100 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.3g", perSecond)
}

// backlogGrowth returns the growth of the backlog over the window, in requests.
func (t trial) backlogGrowth() float64 { return float64(t.Pacing.Scheduled - t.Completed) }

// offeredPerSecond returns the constant rate of the schedule, if it has one.
func (t trial) offeredPerSecond() (rate float64, steady bool) {
	load := t.Cell.Load
	if t.Pacing == nil || t.WindowNS <= 0 || load.Model == burstModel || load.Model == "ramp" {
		return 0, false
	}
	if load.Arrivals == "poisson" && load.RatePerSecond > 0 {
		return load.RatePerSecond, true
	}
	return float64(t.Pacing.Scheduled) / float64(t.WindowNS) * 1e9, true
}

// checkSearchedRate checks that a search measured its other figures at the rate that kept the goal.
// The first versions of wirelab sometimes used a higher rate.
func (t trial) checkSearchedRate(c record.Check) record.Check {
	const anotherRate = 0.005 // half of the precision at which searches stop
	if t.Search == nil || c.Level != record.OK || t.WindowNS <= 0 || t.Search.KeptPerSecond <= 0 {
		return c
	}
	scheduled := t.Pacing.Scheduled
	if t.part != nil { // the rate is that of all clients of a fleet
		scheduled = 0
		for i := range t.Fleet.Clients {
			scheduled += cmp.Or(t.Fleet.Clients[i].Pacing, &record.Pacing{}).Scheduled
		}
	}
	measured := float64(scheduled) / float64(t.WindowNS) * 1e9
	off := math.Abs(measured/t.Search.KeptPerSecond - 1)
	// A schedule has a whole number of arrivals.
	if off > anotherRate+1/float64(scheduled) {
		c.Figure, c.Limit = &off, new(anotherRate)
		setVerdict(&c, record.Warning, "the highest rate that kept the goal is %.0f/s, but latency, CPU time and traffic were measured at %.0f/s", t.Search.KeptPerSecond, measured)
	}
	return c
}
