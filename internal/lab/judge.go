package lab

import (
	"fmt"
	"math"
	"strings"

	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/record"
)

// The limits of the checks. Each check's figure and limit stand in the record,
// so that a reader may hold them to other limits.
const (
	// A client that has this much of its CPUs busy cannot go faster.
	saturated = 0.95
	// A server less busy than this, under a saturated client, was idle for
	// more than half of the time: the figure is then the client's.
	idle = 0.5
	// The share of their time that closed-loop clients may spend outside of
	// calls, in the engine or off the CPU.
	betweenWarning, betweenInvalid = 0.05, 0.20
	// The share of scheduled arrivals that must have been sent.
	unsentInvalid = 0.01
	// The generator's own median lateness, as a share of the median service
	// time, and the absolute value below which it never matters.
	lateShare, lateFloorNS = 0.10, 20_000
	littleLimit            = 0.02
	errorsInvalid          = 0.01
	stolenWarning          = 0.02
	stolenInvalid          = 0.10
	othersWarning          = 0.05
	othersInvalid          = 0.50
	lostWarning            = 0.05
	lostInvalid            = 0.25
	unevenWarning          = 0.90
)

// Judge checks whether a trial may be believed. It is a pure function of the
// record, so that old records can be judged again.
func Judge(r *record.Record) []record.Check {
	if r.Failure != "" {
		return []record.Check{{Name: "measured", Level: record.Invalid, Detail: r.Failure}}
	}
	checks := []record.Check{
		generatorBound(r),
		schedule(r),
		littlesLaw(r),
		evenness(r),
		connections(r),
		failures(r),
		settled(r),
		share("stolen-cpu", "the hypervisor gave %s of the CPU time to others", r.Host.StolenShare, stolenWarning, stolenInvalid),
		share("neighbours", "other processes took %s of the CPU time", r.Host.OthersShare, othersWarning, othersInvalid),
		share("noise", "a worker that only spun, before or after, lost %s of its CPU to others", worse(r.Host.LostBefore, r.Host.LostAfter), lostWarning, lostInvalid),
	}
	return checks
}

// generatorBound asks whether the figure is the load generator's own.
func generatorBound(r *record.Record) record.Check {
	c := record.Check{Name: "generator-bound", Level: record.OK, Unit: "share"}
	between := 0.0
	if span := r.Active * float64(r.WindowNS); span > 0 && r.Cell.Load.Model == "closed" {
		between = float64(r.Engine.BetweenNS) / span
	}
	clientBusy, serverBusy := deref(r.Client.Busy), deref(r.Server.Busy)
	switch {
	case between > betweenWarning:
		c.Level = level(between, betweenWarning, betweenInvalid)
		c.Figure, c.Limit = &between, pointer(betweenInvalid)
		c.Detail = fmt.Sprintf("the clients spent %s of their time outside of calls, in the load engine or off the CPU", percent(between))
	case r.Client.Busy == nil:
		c.Level = record.Unknown
		c.Detail = "the client's CPU time is not known"
	case clientBusy < saturated:
		c.Figure, c.Limit = r.Client.Busy, pointer(saturated)
		c.Detail = fmt.Sprintf("the client had %s of its CPUs busy", percent(clientBusy))
	case r.Server.Busy == nil || serverBusy < idle:
		c.Level = record.Invalid
		c.Figure, c.Limit = r.Client.Busy, pointer(saturated)
		c.Detail = fmt.Sprintf("the client had %s of its CPUs busy and the server %s: the figure is the client's, not the server's",
			percent(clientBusy), known(r.Server.Busy))
	default:
		c.Level = record.Warning
		c.Figure, c.Limit = r.Client.Busy, pointer(saturated)
		c.Detail = fmt.Sprintf("the client's stack had all of its CPUs busy (%s; the server %s): both ends share in this figure", percent(clientBusy), percent(serverBusy))
	}
	return c
}

// schedule asks whether an open loop sent what it should have, when it should
// have.
func schedule(r *record.Record) record.Check {
	c := record.Check{Name: "schedule", Level: record.OK, Unit: "share"}
	if r.Pacing == nil || r.Pacing.Scheduled == 0 {
		c.Detail = "a closed loop keeps none"
		return c
	}
	unsent := float64(r.Pacing.Unsent) / float64(r.Pacing.Scheduled)
	queued := float64(r.Pacing.Queued) / float64(r.Pacing.Scheduled)
	c.Figure, c.Limit = &unsent, pointer(unsentInvalid)
	late, lateKnown := medianNS(r.Pacing.Late)
	service, _ := medianNS(r.Service)
	switch {
	case unsent > unsentInvalid:
		c.Level = record.Invalid
		c.Detail = fmt.Sprintf("%d of %d arrivals never went out: the rate is beyond what server and clients can do", r.Pacing.Unsent, r.Pacing.Scheduled)
	case lateKnown && late > lateFloorNS && late > lateShare*service:
		c.Level = record.Invalid
		c.Figure, c.Limit, c.Unit = pointer(late/1e3), pointer(max(lateFloorNS, lateShare*service)/1e3), "us"
		c.Detail = fmt.Sprintf("the generator sent late by %.0f µs in the median, where a request takes %.0f µs", late/1e3, service/1e3)
	case queued > 0.01:
		c.Level = record.Warning
		c.Figure, c.Limit = &queued, pointer(0.01)
		c.Detail = fmt.Sprintf("%s of the arrivals found all %d clients busy and waited: response time has it, service time has not; more clients would send them", percent(queued), r.Cell.Clients)
	default:
		c.Detail = fmt.Sprintf("all %d arrivals were sent, late by %.1f µs in the median", r.Pacing.Scheduled, late/1e3)
	}
	return c
}

// littlesLaw holds three things that were measured apart against each other:
// the calls in flight, those that ended, and how long they took. A straddling
// call has all of its time in one and only a part of it in another; the limit
// leaves room for half of each.
func littlesLaw(r *record.Record) record.Check {
	c := record.Check{Name: "littles-law", Level: record.OK, Unit: "share"}
	if r.Service.Count == 0 || r.Completed == 0 || r.InFlight == 0 {
		c.Level = record.Invalid
		c.Detail = "no call ended in the window"
		return c
	}
	meanNS := float64(r.Service.Sum) / float64(r.Service.Count)
	product := float64(r.Completed) / float64(r.WindowNS) * meanNS
	off := math.Abs(product-r.InFlight) / r.InFlight
	limit := littleLimit + float64(r.Straddling)/float64(2*r.Completed)
	c.Figure, c.Limit = &off, &limit
	c.Detail = fmt.Sprintf("%.4g calls were in flight; throughput × mean service time gives %.4g (%d of %d calls straddle the window's edges)",
		r.InFlight, product, r.Straddling, r.Completed)
	if off > limit {
		c.Level = record.Invalid
	}
	return c
}

// evenness tells where some clients had made their requests long before others.
func evenness(r *record.Record) record.Check {
	c := record.Check{Name: "evenness", Level: record.OK, Unit: "share"}
	share := r.Active / float64(r.Cell.Clients)
	c.Figure, c.Limit = &share, pointer(unevenWarning)
	c.Detail = fmt.Sprintf("%.4g of %d clients were at work in the mean", r.Active, r.Cell.Clients)
	if share < unevenWarning {
		c.Level = record.Warning
		c.Detail += ": some had made all their requests long before others"
	}
	return c
}

// connections asks whether the mode was achieved.
func connections(r *record.Record) record.Check {
	c := record.Check{Name: "connections", Level: record.OK, Unit: "connections"}
	opened, want := float64(r.Connections.Opened), float64(r.Connections.Want)
	c.Figure, c.Limit = &opened, &want
	c.Detail = fmt.Sprintf("%s: %d wanted, %d opened, %d of them in the window", r.Connections.Mode, r.Connections.Want, r.Connections.Opened, r.Connections.During)
	switch {
	case opened == want && r.Connections.During == 0:
	case strings.HasPrefix(r.Connections.Mode, "pool") && opened < want, r.Connections.During == 0 && opened > want:
		c.Level = record.Warning // a pool grows as far as it is needed; what was replaced before the window did no harm in it
	default:
		c.Level = record.Invalid
	}
	return c
}

func failures(r *record.Record) record.Check {
	c := record.Check{Name: "errors", Level: record.OK, Unit: "share", Detail: "none"}
	failed := r.Failed()
	share := float64(failed) / float64(max(1, r.Requests))
	c.Figure, c.Limit = &share, pointer(errorsInvalid)
	if failed == 0 {
		return c
	}
	c.Level = level(share, 0, errorsInvalid)
	c.Detail = fmt.Sprintf("%d of %d requests failed; the most of them with %s: %s", failed, r.Requests, r.Errors[0].Code, r.Errors[0].Example)
	return c
}

func settled(r *record.Record) record.Check {
	c := record.Check{Name: "settled", Level: record.OK}
	if r.WarmUp.Method == "none" {
		c.Detail = "the scenario asks for no warm-up"
		return c
	}
	c.Detail = fmt.Sprintf("steady after %.0f ms and %d requests", float64(r.WarmUp.TookNS)/1e6, r.WarmUp.Requests)
	if !r.WarmUp.Settled {
		c.Level = record.Warning
		c.Detail = fmt.Sprintf("the throughput had not settled after %.0f ms and %d requests, the longest warm-up allowed", float64(r.WarmUp.TookNS)/1e6, r.WarmUp.Requests)
	}
	return c
}

// share judges a share that the machine lost.
func share(name, words string, figure *float64, warning, invalid float64) record.Check {
	c := record.Check{Name: name, Level: record.Unknown, Unit: "share", Limit: &invalid, Detail: "not known on this machine"}
	if figure == nil {
		return c
	}
	c.Level, c.Figure = level(*figure, warning, invalid), figure
	c.Detail = fmt.Sprintf(words, percent(*figure))
	return c
}

func level(figure, warning, invalid float64) record.Level {
	switch {
	case figure > invalid:
		return record.Invalid
	case figure > warning:
		return record.Warning
	default:
		return record.OK
	}
}

// medianNS is false where there is nothing, or nothing readable.
func medianNS(d latency.Distribution) (float64, bool) {
	h, err := d.Decode()
	if err != nil || h.Count() == 0 {
		return 0, false
	}
	return float64(h.Quantile(0.5)), true
}

func worse(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func deref(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

func pointer(v float64) *float64 { return &v }

func percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

func known(p *float64) string {
	if p == nil {
		return "an unknown share"
	}
	return percent(*p)
}
