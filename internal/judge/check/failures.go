package check

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// limited counts the requests that failed at a limit of the machine, and returns their most
// frequent failure.
func (t trial) limited() (requests int64, most record.ErrorCount) {
	for _, e := range t.Errors {
		switch failure.Class(e.Class) {
		case failure.PortExhaustion, failure.DescriptorLimit, failure.Backlog:
			requests += e.Count
			if e.Count > most.Count {
				most = e
			}
		}
	}
	return requests, most
}

// naive reports whether the client ignores the machine's limits by design.
func (t trial) naive() bool {
	v, err := scenario.ParseVariant(t.Cell.Variant)
	kind, _ := v.Get(scenario.ClientOption)
	return err == nil && kind == scenario.NaiveClient
}

// machineLimits checks that no request failed at a limit of the machine.
func (t trial) machineLimits() record.Check {
	c := record.Check{Level: record.OK, Unit: "requests", Detail: "no limit was reached"}
	failed, most := t.limited()
	c.Figure, c.Limit = new(float64(failed)), new(0.0)
	if failed > 0 {
		verdict(&c, record.Invalid, "%d of %d requests failed at a limit of the machine, not of the protocol; most of them at %s: %s",
			failed, t.Requests, most.Class, most.Example)
		if t.naive() {
			c.Level = record.Warning
			c.Detail += "; the client is naive, so this is its result"
		}
		return c
	}
	datagrams := t.Requests
	if t.Traffic == nil || t.Traffic.Transport != "udp" {
		datagrams = 0
	}
	for _, full := range []struct {
		dropped int64
		of      int64
		words   string
	}{
		{valueOf(t.Host.AcceptDrops), t.Connections.During, "backlog: %d of %d connections found it full, and were tried again a second later"},
		{valueOf(t.Host.UDPDrops), datagrams, "udp-buffer: the kernel dropped %d datagrams, of %d requests, that found a receive buffer full"},
	} {
		// The kernel counts for the whole machine: drops of a kind that the trial did not use
		// belong to other programs.
		if full.dropped == 0 || full.of == 0 {
			continue
		}
		c.Figure, c.Unit = new(float64(full.dropped)), "drops"
		verdict(&c, anyUpTo(t.limits.Drops).level(float64(full.dropped)/float64(full.of)), full.words, full.dropped, full.of)
		if t.naive() {
			c.Level = record.Warning
		}
		return c
	}
	return c
}

func (t trial) failures() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "none"}
	failed := t.Failed()
	share := float64(failed) / float64(max(1, t.Requests))
	c.Figure, c.Limit = &share, new(t.limits.Errors)
	if failed > 0 {
		most := slices.MaxFunc(t.Errors, func(a, b record.ErrorCount) int { return cmp.Compare(a.Count, b.Count) })
		verdict(&c, anyUpTo(t.limits.Errors).level(share), "%d of %d requests failed; most of them with %s: %s", failed, t.Requests, most.Code, most.Example)
		c.Detail += t.paceOfFailures()
		if own, _ := t.limited(); t.naive() && float64(failed-own) <= t.limits.Errors*float64(t.Requests) {
			c.Level = record.Warning // the check machineLimits has the reason
		}
		if t.Cell.Kind().MayFail && failed < t.Requests { // its user wants to know how it fails
			c.Level = record.Warning
			if slices.ContainsFunc(t.Errors, func(e record.ErrorCount) bool { return failure.Class(e.Class) == failure.Refused }) {
				verdict(&c, record.Invalid, "the service went away while it was loaded: nothing listened there any more; %s", c.Detail)
			}
		}
	}
	asked := int64(t.Cell.Clients) * int64(t.Cell.Load.RequestsPerClient)
	if asked = max(asked, int64(t.Cell.Load.TotalRequests)); t.Requests < asked && !t.EndedEarly {
		verdict(&c, record.Invalid, "%d of %d requests were never made, since no call ended any more; failed: %s", asked-t.Requests, asked, c.Detail)
	}
	return c
}

// paceOfFailures compares the time of failed calls, which latencies include, with the others.
func (t trial) paceOfFailures() string {
	failed := t.Failed()
	well := t.Service.Count - failed
	if t.FailedNS == nil || failed <= 0 || well <= 0 {
		return ""
	}
	mean, others := float64(*t.FailedNS)/float64(failed), float64(t.Service.Sum-*t.FailedNS)/float64(well)
	if others <= 0 || t.limits.Moved.level(max(mean/others, others/max(1, mean))-1) == record.OK {
		return ""
	}
	return fmt.Sprintf("; they took %s in the mean and the others %s; latencies include them: without them the mean is %.3g times as long", units.Time(mean), units.Time(others),
		others*float64(t.Service.Count)/float64(t.Service.Sum))
}

// answers checks that no answer came before the workload's work could be done: a handler that
// sleeps for it cannot be early.
func (t trial) answers() record.Check {
	c := record.Check{Level: record.OK, Unit: "us", Detail: "the workload asks for no work"}
	if t.WorkNS == nil || *t.WorkNS <= 0 {
		return c
	}
	h, err := t.Service.Decode()
	if err != nil || h.Count() == 0 {
		return c // bookkeeping reports that
	}
	// Failed calls may be arbitrarily quick.
	failed := float64(t.Failed()) / float64(h.Count())
	soonest := h.Quantile(min(1, failed))
	if failed > 0 {
		soonest = h.Quantile(min(1, failed+t.limits.Errors))
	}
	work := float64(*t.WorkNS)
	c.Figure, c.Limit = new(float64(soonest)/1e3), new(work/1e3)
	c.Detail = "no answer came before the work could be done"
	if float64(soonest) < work*histogramPrecision {
		verdict(&c, record.Invalid, "answers came after %s, but their work takes %s: the server skips it", units.Time(float64(soonest)), units.Time(work))
	}
	return c
}

// histogramPrecision is the precision of a histogram, which has three digits.
const histogramPrecision = 0.999
