package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/failure"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/catalog"
)

// connections asks whether the mode was achieved. A pool grows as far as it is
// needed; what was replaced before the window did no harm in it.
func connections(r *record.Record) record.Check {
	made := r.Connections
	if mode, err := scenario.ParseConnection(made.Mode); err == nil && mode.Mode.PerRequest() {
		return perRequest(r, mode.Mode)
	}
	c := record.Check{Name: "connections", Level: record.OK, Unit: "connections"}
	opened, want := float64(made.Opened), float64(made.Want)
	c.Figure, c.Limit = &opened, &want
	c.Detail = fmt.Sprintf("%s: %d wanted, %d opened, %d of them in the window; %d attempts failed", made.Mode, made.Want, made.Opened, made.During, made.Failed)
	growing := strings.HasPrefix(made.Mode, "pool") && opened <= want
	switch {
	case !growing && (opened < want || made.During > 0):
		c.Level = record.Invalid
	case opened != want || made.During > 0 || made.Failed > 0:
		c.Level = record.Warning
	}
	return c
}

// perRequest asks whether every request that was answered had opened a
// connection, and whether those began as the mode has it. What is opened just
// before an edge of the window may belong to a request on its other side.
func perRequest(r *record.Record, mode scenario.ConnectionMode) record.Check {
	c := record.Check{Name: "connections", Level: record.OK, Unit: "connections"}
	made := r.Connections
	opened, answered := float64(made.During), float64(r.Requests-r.Failed())
	c.Figure, c.Limit = &opened, &answered
	c.Detail = fmt.Sprintf("%s: %d connections for %.0f answers", mode, made.During, answered)
	edges := 2*float64(r.Cell.Clients) + edgeShare*float64(r.Requests)
	switch {
	case opened < answered-edges:
		c.Level = record.Invalid
		c.Detail += ": requests shared connections"
		return c
	case opened > float64(r.Requests)+edges:
		c.Level = record.Warning
		c.Detail += ": some were opened in vain"
	}
	shaken, wrong, what := handshakes(made, mode)
	if shaken == 0 {
		if mode != scenario.New {
			c.Level = record.Invalid
			c.Detail += ", and no TLS session was resumed"
		}
		return c
	}
	c.Detail += fmt.Sprintf("; %d handshakes, %d of them %s", shaken, wrong, what)
	switch otherwise := level(float64(wrong)/float64(shaken), 0, handshakesInvalid); otherwise {
	case record.OK:
	default:
		c.Level = otherwise
	}
	return c
}

// handshakes tells how many there were, and how many of them were not what the
// mode asks for.
func handshakes(made record.Connections, mode scenario.ConnectionMode) (all, wrong int64, what string) {
	all = made.Full + made.Resumed
	switch mode {
	case scenario.Resumed:
		return all, made.Full, "full"
	case scenario.Early:
		return all, all - made.Early, "without early data that the server took"
	default:
		return all, made.Resumed, "resumed"
	}
}

// limited tells which of the machine's limits failed requests ran into, and how
// many.
func limited(r *record.Record) (requests int64, most record.ErrorCount) {
	for _, e := range r.Errors {
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

// naive tells whether the record's client takes no care of the machine's limits,
// so that running into them is what it shows.
func naive(r *record.Record) bool {
	v, err := scenario.ParseVariant(r.Cell.Variant)
	return err == nil && catalog.Naive(v)
}

// excuseCollapse makes a warning of what a naive client's collapse brings with it:
// calls that fail at once keep a client busy and a server idle.
func excuseCollapse(r *record.Record, c record.Check) record.Check {
	if met, _ := limited(r); c.Level == record.Invalid && met > 0 && naive(r) {
		c.Level = record.Warning
	}
	return c
}

// limits asks whether a limit of the machine bound the trial.
func limits(r *record.Record) record.Check {
	c := record.Check{Name: "limits", Level: record.OK, Unit: "requests", Detail: "none was met"}
	failed, most := limited(r)
	c.Figure, c.Limit = pointer(float64(failed)), pointer(0)
	if failed > 0 {
		c.Level = record.Invalid
		c.Detail = fmt.Sprintf("%d of %d requests failed at a limit of the machine, not of the protocol; the most of them at %s: %s",
			failed, r.Requests, most.Class, most.Example)
		if naive(r) {
			c.Level = record.Warning
			c.Detail += "; the client is naive, and this is what comes of it"
		}
		return c
	}
	for _, full := range []struct {
		dropped *int64
		of      int64
		words   string
	}{
		{r.Host.AcceptDrops, r.Connections.During, "backlog: %d of %d connections found it full, and were tried again a second later"},
		{overUDP(r), r.Requests, "udp-buffer: the kernel dropped %d datagrams, of %d requests, that found a receive buffer full"},
	} {
		// The kernel counts for the whole machine: what a trial did not use
		// was not dropped from it.
		if full.dropped == nil || *full.dropped == 0 || full.of == 0 {
			continue
		}
		c.Figure, c.Unit = pointer(float64(*full.dropped)), "drops"
		c.Level = level(float64(*full.dropped)/float64(max(1, full.of)), 0, dropsInvalid)
		if naive(r) {
			c.Level = record.Warning
		}
		c.Detail = fmt.Sprintf(full.words, *full.dropped, full.of)
		return c
	}
	return c
}

// emulation asks whether an emulated link did what it was asked to.
func emulation(r *record.Record) record.Check {
	c := record.Check{Name: "link", Level: record.OK, Unit: "share", Detail: "none is emulated"}
	l := r.Link
	if l == nil || r.Cell.Network.DelayNS == 0 {
		return c
	}
	late := float64(l.LateP99NS) / float64(r.Cell.Network.DelayNS)
	c.Figure, c.Limit = &late, pointer(linkInvalid)
	c.Level = level(late, linkWarning, linkInvalid)
	c.Detail = fmt.Sprintf("%d frames were sent late by %.0f µs in the median and %.0f µs at P99, of a delay of %.4g ms",
		l.Frames, float64(l.LateP50NS)/1e3, float64(l.LateP99NS)/1e3, float64(r.Cell.Network.DelayNS)/1e6)
	if l.Dropped > 0 {
		c.Level = record.Invalid
		c.Detail = fmt.Sprintf("%d of %d frames were dropped for want of room: the emulation is the limit, not the link", l.Dropped, l.Frames)
	}
	return c
}

// overUDP is what was dropped of UDP, where the trial's requests go over it.
func overUDP(r *record.Record) *int64 {
	if r.Traffic == nil || r.Traffic.Transport != "udp" {
		return nil
	}
	return r.Host.UDPDrops
}

func failures(r *record.Record) record.Check {
	c := record.Check{Name: "errors", Level: record.OK, Unit: "share", Detail: "none"}
	failed := r.Failed()
	share := float64(failed) / float64(max(1, r.Requests))
	c.Figure, c.Limit = &share, pointer(errorsInvalid)
	if failed > 0 {
		most := slices.MaxFunc(r.Errors, func(a, b record.ErrorCount) int { return cmp.Compare(a.Count, b.Count) })
		c.Level = level(share, 0, errorsInvalid)
		c.Detail = fmt.Sprintf("%d of %d requests failed; the most of them with %s: %s", failed, r.Requests, most.Code, most.Example)
		if own, _ := limited(r); naive(r) && float64(failed-own) <= errorsInvalid*float64(r.Requests) {
			c.Level = record.Warning // the limits say why
		}
	}
	asked := int64(r.Cell.Clients) * int64(r.Cell.Load.RequestsPerClient)
	if asked = max(asked, int64(r.Cell.Load.TotalRequests)); r.Requests < asked {
		c.Level = record.Invalid
		c.Detail = fmt.Sprintf("%d of %d requests were never made, since no call ended any more; failed: %s", asked-r.Requests, asked, c.Detail)
	}
	return c
}
