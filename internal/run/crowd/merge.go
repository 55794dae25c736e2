// Package crowd merges the results of several clients that run at the same time into one result.
//
//	one spec ── Split ──> a spec per client
//	progress and intervals, while they run ── Tracker, Stream ──> one progress
//	results ── Merge ──> one result
//
// This package must not know how wirelab reaches the clients.
package crowd

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
)

// Merge merges the results of several clients that ran at the same time, as if they were one
// client. It sums counts; its distributions include all calls. All instants must be on one clock.
//
// intervals holds one list of interval events per part. If a list is empty, the result has no
// course. Merge leaves out figures that describe a single machine.
func Merge(parts []worker.ClientPart, intervals [][]worker.Interval) (*worker.ClientResult, error) {
	if len(parts) == 0 {
		return nil, errors.New("merge clients: there are no results to merge: want the result of at least one client")
	}
	for _, p := range parts {
		if err := checkPart(&p, parts[0].Result.Client); err != nil {
			return nil, fmt.Errorf("merge clients: %s %w", p.Agent, err)
		}
		if p.Result.Client.Search != nil {
			return nil, fmt.Errorf("merge clients: %s ran a search of its own: want a step of the search of all clients", p.Agent)
		}
	}
	m := merger{parts: parts, clients: lists.Map(parts, func(p worker.ClientPart) *worker.ClientResult { return p.Result.Client })}
	m.findWindow()
	m.sumResults()
	m.result.Intervals = m.mergeIntervals()
	if err := m.mergeDistributions(); err != nil {
		return nil, fmt.Errorf("merge clients: %w", err)
	}
	if err := m.mergeCourse(intervals); err != nil {
		return nil, fmt.Errorf("merge clients: %w", err)
	}
	return &m.result, nil
}

// maxTimeApart bounds the time between two instants of a trial. Without a bound, wrong instants
// from another machine could make the merge use any amount of memory.
const maxTimeApart = 24 * time.Hour

// checkPart returns an error if a part cannot be merged with the first part, whose result is first.
// The error begins with a verb, because callers put the agent's name before it.
func checkPart(p *worker.ClientPart, first *worker.ClientResult) error {
	r := p.Result.Client
	switch {
	case r == nil || first == nil:
		return errors.New("has no client result")
	case areFarApart(r.BeginNS, r.EndNS) || r.LengthNS() <= 0 || r.PausedNS < 0:
		return fmt.Errorf("has an impossible window: from %d to %d ns, paused for %d ns", r.BeginNS, r.EndNS, r.PausedNS)
	case areFarApart(r.BeginNS, first.BeginNS):
		return fmt.Errorf("opened its window at %d ns, the first client at %d ns: want instants of one clock", r.BeginNS, first.BeginNS)
	}
	for _, i := range r.Intervals {
		if i.TookNS < 0 || i.Requests < 0 || areFarApart(i.StartNS, 0) || areFarApart(i.TookNS, 0) {
			return fmt.Errorf("has an impossible interval: begin %d ns after the window's begin, length %d ns, %d calls", i.StartNS, i.TookNS, i.Requests)
		}
	}
	return checkCounts(r)
}

// areFarApart compares the instants as float64: their difference could overflow an int64.
func areFarApart(a, b int64) bool {
	return math.Abs(float64(a)-float64(b)) > float64(maxTimeApart)
}

// maxInFlight bounds the calls in flight that a part may report, to keep sums finite.
const maxInFlight = 1e12

func checkCounts(r *worker.ClientResult) error {
	var inSlices record.Slice
	for _, s := range r.Slices {
		if min(s.Requests, s.Failed, s.Completed, s.SumNS, s.LostNS) < 0 {
			return fmt.Errorf("reported an impossible slice: %+v", s)
		}
		inSlices = inSlices.Plus(s)
	}
	for _, count := range []struct {
		of    string
		value int64
	}{
		{"requests", r.Requests},
		{"completed requests", r.Completed},
		{"straddling requests", r.Straddling},
		{"ns of straddling requests", r.StraddlingNS},
		{"connections in the window", r.Connections.During},
		{"requests in slices", inSlices.Requests},
		{"failures in slices", inSlices.Failed},
		{"completed requests in slices", inSlices.Completed},
		{"ns of requests in slices", inSlices.SumNS},
	} {
		if count.value < 0 {
			return fmt.Errorf("reported %d %s: want 0 or more", count.value, count.of)
		}
	}
	for _, failed := range r.Failures {
		if failed.Count < 0 || failed.Count > r.Requests {
			return fmt.Errorf("reported %d failures of the class %q for %d requests: want 0 to %[3]d", failed.Count, failed.Class, r.Requests)
		}
	}
	switch {
	case len(r.Slices) > 0 && inSlices.Requests != r.Requests:
		return fmt.Errorf("reported %d requests in slices, but %d requests: want equal numbers", inSlices.Requests, r.Requests)
	case r.Service.Count != r.Requests:
		return fmt.Errorf("reported %d service times for %d requests: want equal numbers", r.Service.Count, r.Requests)
	case r.InFlight < 0 || r.InFlight > maxInFlight || r.Active < 0 || r.Active > maxInFlight:
		return fmt.Errorf("reported impossible means: %g calls in flight, %g active clients", r.InFlight, r.Active)
	}
	return nil
}

// CheckPart returns an error if a client's result, perhaps from another machine, is impossible.
func CheckPart(p *worker.ClientPart) error {
	err := checkPart(p, p.Result.Client)
	if err == nil && !p.Result.Client.Service.OnlyTotals() {
		_, err = p.Result.Client.Service.Decode()
	}
	if err != nil {
		return fmt.Errorf("%s %w", p.Agent, err)
	}
	return nil
}

// merger merges the results of several clients.
type merger struct {
	parts   []worker.ClientPart
	clients []*worker.ClientResult // the clients' results, one per part
	result  worker.ClientResult
}

// maxLengthDifference is the relative difference up to which two windows count as equally long. The
// clocks of two machines drift a little.
const maxLengthDifference = 1e-3

// findWindow sets the merged window, which opens when the first part's window opens. If time bounds
// the windows, the merged window is as long as one of them. Otherwise it ends with the last one.
func (m *merger) findWindow() {
	r, first := &m.result, m.clients[0]
	r.BeginNS = first.BeginNS
	shortest, longest, all, last := first.LengthNS(), first.LengthNS(), int64(0), first.EndNS
	for _, p := range m.clients {
		r.BeginNS, last = min(r.BeginNS, p.BeginNS), max(last, p.EndNS)
		r.PausedNS = max(r.PausedNS, p.PausedNS)
		shortest, longest = min(shortest, p.LengthNS()), max(longest, p.LengthNS())
		all += p.LengthNS()
	}
	r.EndNS = last
	if float64(longest-shortest) <= maxLengthDifference*float64(longest) {
		r.EndNS = r.BeginNS + all/int64(len(m.parts)) + r.PausedNS
	}
}

// sumResults adds up the results of the parts. It weights each mean by the length of the part's
// window: Little's law then also holds for the sum. SpanNS is scaled to the merged window.
func (m *merger) sumResults() {
	window := m.result
	var lengths float64
	for i := range m.parts {
		p := relativeToWhole(&m.parts[i], &window)
		lengths += float64(p.EndNS - p.BeginNS)
		if i == 0 {
			m.result = p
		} else {
			m.result = m.result.Plus(p)
		}
	}
	r := &m.result
	r.BeginNS, r.EndNS, r.Course = window.BeginNS, window.EndNS, nil
	slices.SortFunc(r.Failures, func(a, b record.ErrorCount) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Class, b.Class))
	})
	if r.Census != nil {
		r.CensusFailed = ""
	}
	if r.Traffic != nil {
		r.Traffic.SpanNS = int64(float64(r.Traffic.SpanNS) / max(1, lengths) * float64(r.EndNS-r.BeginNS))
	}
}

// relativeToWhole returns a part's result with means and instants relative to the merged window.
func relativeToWhole(part *worker.ClientPart, whole *worker.ClientResult) worker.ClientResult {
	p := *part.Result.Client
	weight := float64(p.LengthNS()) / float64(max(1, whole.LengthNS()))
	p.InFlight *= weight
	p.Active *= weight
	p.Traces = slices.Clone(p.Traces)
	for i := range p.Traces {
		p.Traces[i].AfterNS += p.BeginNS - whole.BeginNS
	}
	for _, failed := range []*string{&p.CensusFailed, &p.SamplesFailed} {
		if *failed != "" {
			*failed = part.Agent + ": " + *failed
		}
	}
	return p
}

func (m *merger) mergeDistributions() error {
	r := &m.result
	var all error
	merge := func(name string, of func(*worker.ClientResult) *latency.Distribution) *latency.Distribution {
		merged, err := m.mergeDistribution(of)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
		}
		return merged
	}
	service := func(p *worker.ClientResult) *latency.Distribution { return &p.Service }
	if merged := merge("service times", service); merged != nil {
		r.Service = *merged
	}
	if slices.ContainsFunc(m.clients, func(p *worker.ClientResult) bool { return p.Response != nil }) {
		// A part without response times has response times equal to its service times.
		r.Response = merge("response times", func(p *worker.ClientResult) *latency.Distribution { return cmp.Or(p.Response, &p.Service) })
	}
	r.Wait = merge("waiting times", func(p *worker.ClientResult) *latency.Distribution { return p.Wait })
	r.Messages = merge("messages", func(p *worker.ClientResult) *latency.Distribution { return p.Messages })
	if r.Pacing != nil {
		late := merge("lateness", func(p *worker.ClientResult) *latency.Distribution {
			if p.Pacing == nil {
				return nil
			}
			return &p.Pacing.Late
		})
		if late != nil {
			r.Pacing.Late = *late
		}
	}
	c := &r.Connections
	c.Connect = merge("times to connect", func(p *worker.ClientResult) *latency.Distribution { return p.Connections.Connect })
	c.Handshake = merge("handshakes", func(p *worker.ClientResult) *latency.Distribution { return p.Connections.Handshake })
	c.FirstByte = merge("first bytes", func(p *worker.ClientResult) *latency.Distribution { return p.Connections.FirstByte })
	mergeNamed := func(named *record.NamedCalls, in func(*worker.ClientResult) []record.NamedCalls) {
		of := func(p *worker.ClientResult) *record.NamedCalls { return findNamed(in(p), named.Name) }
		service := merge(named.Name, func(p *worker.ClientResult) *latency.Distribution {
			if calls := of(p); calls != nil {
				return &calls.Service
			}
			return nil
		})
		named.Service = *cmp.Or(service, &latency.Distribution{})
		if named.Response != nil {
			named.Response = merge(named.Name, func(p *worker.ClientResult) *latency.Distribution {
				if calls := of(p); calls != nil {
					return cmp.Or(calls.Response, &calls.Service)
				}
				return nil
			})
		}
	}
	for i := range r.Named {
		mergeNamed(&r.Named[i], func(p *worker.ClientResult) []record.NamedCalls { return p.Named })
	}
	for i := range r.ByAddress {
		mergeNamed(&r.ByAddress[i], func(p *worker.ClientResult) []record.NamedCalls { return p.ByAddress })
	}
	return all
}

// mergeDistribution merges the distributions of the parts. It returns nil if no part has one.
func (m *merger) mergeDistribution(of func(*worker.ClientResult) *latency.Distribution) (*latency.Distribution, error) {
	var have []latency.Distribution
	for i, p := range m.clients {
		d := of(p)
		if d == nil {
			continue
		}
		if d.Histogram != "" {
			if _, err := d.Decode(); err != nil {
				return nil, fmt.Errorf("read the distribution of %s: %w", m.parts[i].Agent, err)
			}
		}
		have = append(have, *d)
	}
	if len(have) == 0 {
		return nil, nil
	}
	merged, err := latency.MergeDistributions(have...)
	return &merged, err
}

func findNamed(in []record.NamedCalls, name string) *record.NamedCalls {
	i := slices.IndexFunc(in, func(c record.NamedCalls) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &in[i]
}
