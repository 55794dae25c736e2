package lab

import (
	"fmt"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack/catalog"
)

// recordedCell returns a record's cell without the connection, the load and the target: its other
// fields follow from the scenario alone.
func recordedCell(cell scenario.Cell) record.Cell {
	return record.Cell{
		Part: cell.Part, Stack: cell.Variant.Stack, Variant: cell.Variant.String(),
		Place:   record.Place{Workload: cell.Workload, Payload: record.Payload{RequestBytes: int(cell.Size.Request), ResponseBytes: int(cell.Size.Response)}, Clients: cell.Clients},
		Network: recordedNetwork(cell.Network), Unpinned: catalog.SharesCPUs(cell),
	}
}

// recordedLoad returns the cell's load. inFlight is the variant's in-flight limit, which the load
// engine applies.
func recordedLoad(cell scenario.Cell, inFlight int) record.Load {
	l := cell.Load
	recorded := recordedRates(l)
	recorded.Model, recorded.Arrivals, recorded.InFlightLimit = string(l.Model), string(l.Arrivals), inFlight
	switch l.Model {
	case scenario.Burst:
		recorded.Burst = l.Requests
	case scenario.Search:
		recorded.Goal = l.Goal.String()
	default:
		recorded.RequestsPerClient, recorded.TotalRequests = l.Requests, l.Total
	}
	return recorded
}

// recordedRates returns the schedule of a load.
func recordedRates(l scenario.Load) record.Load {
	return record.Load{DurationNS: int64(l.Duration), RatePerSecond: l.Rate, RampTo: l.To, Stages: l.Stages}
}

// fillMeasurement copies the client's measurement into the record.
func fillMeasurement(r *record.Record, c *worker.ClientResult) {
	if c.ClientProgram != "" {
		r.Warnings = append(r.Warnings, "the client was "+c.ClientProgram+": the figures cover the whole life of this program, its start included; percentiles, calls in flight and connections are unknown; only the number of answers was checked")
	}
	r.WindowNS = c.EndNS - c.BeginNS - c.PausedNS
	if c.EndedEarly {
		r.Warnings = append(r.Warnings, "the trial was ended early: "+describeEarlyEnd(r.Cell.Load, r.WindowNS, c.Requests))
	}
	if c.Pauses > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the trial was paused %s; no figure includes the %v of pauses in the window; after a pause all callers begin at once",
			describeCount(c.Pauses), time.Duration(c.PausedNS).Round(time.Millisecond)))
	}
	r.Measurement, r.Errors = c.Measurement, c.Failures
	r.Resent += c.Connections.Window.SentAgain
	r.Connections = record.Connections{
		Mode: c.Connections.Mode, Want: c.Connections.Want,
		Opened: c.Connections.Total.Opened, Failed: c.Connections.Total.Failed, During: c.Connections.During,
		Full: c.Connections.Window.Full, Resumed: c.Connections.Window.Resumed,
		Early: c.Connections.Window.Early, EarlyRefused: c.Connections.Window.EarlyRefused,
		HandshakeFailed: c.Connections.Window.HandshakeFail,
		Connect:         c.Connections.Connect, Handshake: c.Connections.Handshake, FirstByte: c.Connections.FirstByte,
	}
	r.Traffic, r.Wire = recordedTraffic(c.Traffic), wireBytes(c.Census)
	if c.CensusFailed != "" {
		r.Warnings = append(r.Warnings, "the bytes per call on the wire are unknown: "+c.CensusFailed)
	}
	r.Engine = record.Engine{BetweenNS: c.BetweenNS, OwnNS: c.EngineOwnNS}
}

// describeEarlyEnd says how much of the requested load was measured.
func describeEarlyEnd(asked record.Load, windowNS, requests int64) string {
	window := time.Duration(windowNS).Round(time.Millisecond)
	switch {
	case asked.Model == string(scenario.Search) || asked.Model == string(scenario.Burst):
		return fmt.Sprintf("the figures cover %d requests in %v", requests, window)
	case asked.DurationNS > 0:
		return fmt.Sprintf("the figures cover %v of the planned %v", window, time.Duration(asked.DurationNS))
	default:
		return fmt.Sprintf("the figures cover %d requests in %v, which is fewer requests than planned", requests, window)
	}
}

func describeCount(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// applyUsage copies the cost of a process from the begin of the record's window to its end.
func applyUsage(p *record.Process, u *probe.Window, r *record.Record) {
	if u == nil {
		return
	}
	p.Seen.SubtractSyscalls(u.Own.ByName())
	p.UserNS, p.SystemNS = &u.UserNS, &u.SystemNS
	p.RSSBytes, p.PeakBytes = nilIfZero(u.RSSBytes), nilIfZero(u.Most.RSSBytes)
	p.OwnBytes = nilIfZero(u.Most.AnonBytes)
	p.Threads, p.Sockets = nilIfZero(u.Most.Threads), nilIfZero(u.Most.Sockets)
	p.Goroutines, p.HeapBytes = nilIfZero(u.Most.Goroutines), nilIfZero(u.Most.HeapLiveBytes)
	p.SwitchesVol, p.SwitchesInv = &u.VoluntarySwitches, &u.InvoluntarySwitches
	p.StoppedNS = &u.StoppedNS
	p.MinorFaults, p.MajorFaults = &u.MinorFaults, &u.MajorFaults
	p.ThrottledNS, p.ThrottledPeriods = &u.ThrottledNS, &u.ThrottledPeriods
	p.GCPercent = nilIfZero(u.Go.GCPercent)
	if u.Go.Goroutines > 0 { // otherwise the program is not written in Go
		p.GCCycles, p.GCCPUNS, p.GCAssistNS = &u.Go.GCCycles, &u.Go.GCNS, &u.Go.GCAssistNS
	}
	if median, ok := u.Go.RunWait.Quantile(0.5); ok {
		p.SchedP50NS = (*int64)(&median)
	}
	if p99, ok := u.Go.RunWait.Quantile(0.99); ok {
		p.SchedP99NS = (*int64)(&p99)
	}
	if cpus := len(p.CPUs); cpus > 0 && r.WindowNS > 0 {
		p.Busy = new(float64(u.CPU()) / r.AtWorkNS() / float64(cpus))
	}
}

// applyAllowance copies the CPUs and the CPU quota that the kernel allowed a process. Without an
// allowance, the figures of its control group are unknown, too.
func applyAllowance(p *record.Process, a *host.Allowance) {
	if a == nil {
		p.ThrottledNS, p.ThrottledPeriods = nil, nil
		return
	}
	p.AllowedCPUs, p.TracedBy, p.Nice = a.CPUs, a.TracedBy, a.Nice
	if a.QuotaCPUs > 0 {
		p.QuotaCPUs = &a.QuotaCPUs
	}
}

// nilIfZero returns nil for a gauge of zero, which means unknown in the worker contract. The gauges
// of a running worker are above zero, except the live heap before the first collection.
func nilIfZero(gauge int64) *int64 {
	if gauge == 0 {
		return nil
	}
	return &gauge
}

// warnAboutMemory warns if a worker reached its memory limit, which influences its figures.
func warnAboutMemory(r *record.Record) {
	for side, p := range map[string]record.Process{"client": r.Client, "server": r.Server} {
		if p.PeakBytes != nil && *p.PeakBytes >= worker.MemoryLimit {
			r.Warnings = append(r.Warnings, fmt.Sprintf(
				"the %s reached wirelab's memory limit of %d MiB per worker: the garbage collector ran more often than by default", side, worker.MemoryLimit>>20))
		}
	}
}

// recordedTraffic returns the traffic for the record, without figures that the transport lacks.
func recordedTraffic(t *worker.Traffic) *record.Traffic {
	if t == nil {
		return nil
	}
	r := &record.Traffic{
		Transport: t.Transport, SpanNS: t.SpanNS,
		SentBytes: t.SentBytes, ReceivedBytes: t.ReceivedBytes,
		SentPackets: &t.SentPackets, ReceivedPackets: &t.ReceivedPackets,
		Retransmits: &t.Retransmits,
	}
	if rtt := t.RTT(); rtt > 0 {
		r.RTTNS, r.MinRTTNS = (*int64)(&rtt), nilIfZero(int64(t.MinRTT))
	}
	if t.Handshakes > 0 {
		r.HandshakeSentBytes, r.HandshakeReceivedBytes = &t.HandshakeSentBytes, &t.HandshakeReceivedBytes
	}
	if t.Transport == "tcp" {
		r.SentPureAcks, r.ReceivedPureAcks = &t.SentPureAcks, &t.ReceivedPureAcks
		r.BusyNS, r.BlockedNS = (*int64)(&t.Busy), (*int64)(&t.Blocked)
		r.SendCalls = nilIfZero(t.SendCalls)
		return r
	}
	r.SendCalls, r.ReceiveCalls, r.Offload = &t.SendCalls, &t.ReceiveCalls, "none"
	if t.GSO {
		r.Offload = "gso"
	}
	return r
}

// wireBytes returns the bytes per call of each protocol layer, from the counts of a census.
func wireBytes(c *worker.ByteCensus) *record.Wire {
	if c == nil || c.Calls == 0 || c.Traffic.SentBytes == 0 {
		return nil // no bytes were counted
	}
	t := c.Traffic
	w := &record.Wire{
		Calls: c.Calls,
		Request: layerSums{
			messages: c.MessageSentBytes, payload: t.SentBytes, records: c.RecordsSent, streams: c.StreamSentBytes,
			packets: t.SentPackets - t.SentPureAcks, acks: t.SentPureAcks, ackBytes: c.AckSentBytes,
		}.perCall(c),
		Response: layerSums{
			messages: c.MessageReceivedBytes, payload: t.ReceivedBytes, records: c.RecordsReceived, streams: c.StreamReceivedBytes,
			packets: t.ReceivedPackets - t.ReceivedPureAcks, acks: t.ReceivedPureAcks, ackBytes: c.AckReceivedBytes,
		}.perCall(c),
		FirstSentBytes: float64(c.First.SentBytes), FirstReceivedBytes: float64(c.First.ReceivedBytes),
	}
	if h := c.Handshakes; h.Count > 0 {
		w.HandshakeSentBytes = float64(h.SentBytes) / float64(h.Count)
		w.HandshakeReceivedBytes = float64(h.ReceivedBytes) / float64(h.Count)
	}
	return w
}

// layerSums holds the sums of one direction.
type layerSums struct {
	messages, payload int64
	records           int64 // TLS over TCP
	streams, ackBytes int64 // QUIC: bytes of its streams, bytes of packets that only acknowledge
	packets, acks     int64 // packets with payload, packets without
}

// perCall returns the bytes of one call in each layer.
func (l layerSums) perCall(c *worker.ByteCensus) record.WireBytes {
	each := func(sum int64) float64 { return float64(sum) / float64(c.Calls) }
	security := l.records * conn.RecordBytes
	if c.Traffic.Transport == "udp" {
		security = l.payload - l.ackBytes - l.streams
	}
	return record.WireBytes{
		MessageBytes:   each(l.messages),
		ProtocolBytes:  each(l.payload - l.ackBytes - security - l.messages),
		SecurityBytes:  new(each(security)),
		TransportBytes: new(each(l.packets * c.Traffic.HeaderBytes)),
		AckBytes:       new(each(l.ackBytes + l.acks*c.Traffic.HeaderBytes)),
	}
}
