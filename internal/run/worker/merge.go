package worker

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
)

// Merge makes one client of several that worked at the same time: what one would have
// measured that had all their callers, as far as that can be known. Counts are sums,
// distributions are those of all calls. Instants of all parts must be on one clock.
//
// intervals are the interval events of each part, in the order of the parts; without those of
// all there is no course. What has a meaning on one machine only is left out.
func Merge(parts []Part, intervals [][]Interval) (*ClientResult, error) {
	if len(parts) == 0 {
		return nil, errors.New("merge clients: there are none")
	}
	for _, p := range parts {
		if err := p.check(parts[0].Result.Client); err != nil {
			return nil, fmt.Errorf("merge clients: %s %w", p.Agent, err)
		}
	}
	m := merger{parts: parts}
	m.findWindow()
	m.counts()
	m.pacing()
	m.warmUp()
	m.agreed()
	m.named()
	m.costs()
	m.stacks()
	m.result.Intervals = m.intervals()
	if err := m.distributions(); err != nil {
		return nil, fmt.Errorf("merge clients: %w", err)
	}
	if err := m.course(intervals); err != nil {
		return nil, fmt.Errorf("merge clients: %w", err)
	}
	return &m.result, nil
}

// farthestApart bounds how far instants of one trial may be from one another: they come from
// other machines, and memory goes with them.
const farthestApart = 24 * time.Hour

// check refuses what cannot be one of several. first is the result of the first part.
func (p *Part) check(first *ClientResult) error {
	r := p.Result.Client
	switch {
	case r == nil || first == nil:
		return errors.New("has no result of a client")
	case r.Search != nil:
		return errors.New("ran a search, which cannot be one of several")
	case areFarApart(r.BeginNS, r.EndNS) || r.lengthNS() <= 0 || r.PausedNS < 0:
		return fmt.Errorf("has a window from %d to %d ns, %d of it paused", r.BeginNS, r.EndNS, r.PausedNS)
	case areFarApart(r.BeginNS, first.BeginNS):
		return fmt.Errorf("opened its window at %d ns, and another at %d: want instants of one clock", r.BeginNS, first.BeginNS)
	}
	for _, i := range r.Intervals {
		if i.TookNS < 0 || i.Requests < 0 || areFarApart(i.StartNS, 0) || areFarApart(i.TookNS, 0) {
			return fmt.Errorf("has an interval that begins %d ns after its window, took %d, and has %d calls", i.StartNS, i.TookNS, i.Requests)
		}
	}
	return r.checkCounts()
}

// areFarApart is right of instants whose difference no number holds, too.
func areFarApart(a, b int64) bool {
	return math.Abs(float64(a)-float64(b)) > float64(farthestApart)
}

// mostAtOnce bounds the mean calls in flight of a part, so that no sum of them is infinite.
const mostAtOnce = 1e12

// checkCounts refuses counts that no calls can have.
func (r *ClientResult) checkCounts() error {
	for _, count := range []struct {
		of    string
		value int64
	}{
		{"requests", r.Requests},
		{"completed requests", r.Completed},
		{"straddling requests", r.Straddling},
		{"ns of straddling requests", r.StraddlingNS},
		{"connections in the window", r.Connections.During},
	} {
		if count.value < 0 {
			return fmt.Errorf("counts %d %s", count.value, count.of)
		}
	}
	for _, failed := range r.Failures {
		if failed.Count < 0 || failed.Count > r.Requests {
			return fmt.Errorf("counts %d failures %q of %d requests", failed.Count, failed.Class, r.Requests)
		}
	}
	switch {
	case r.Service.Count != r.Requests:
		return fmt.Errorf("has %d service times of %d requests", r.Service.Count, r.Requests)
	case r.InFlight < 0 || r.InFlight > mostAtOnce || r.Active < 0 || r.Active > mostAtOnce:
		return fmt.Errorf("had %g calls in flight, and %g clients at work", r.InFlight, r.Active)
	}
	return nil
}

// Check refuses a result that no client can have, as one from another machine may be.
func (p *Part) Check() error {
	err := p.check(p.Result.Client)
	if err == nil && !p.Result.Client.Service.OnlyTotals() {
		_, err = p.Result.Client.Service.Decode()
	}
	if err != nil {
		return fmt.Errorf("%s %w", p.Agent, err)
	}
	return nil
}

// merger puts the result of several clients together, part by part.
type merger struct {
	parts  []Part
	result ClientResult
}

// lengthNS is how long the load ran between a window's edges.
func (r *ClientResult) lengthNS() int64 { return r.EndNS - r.BeginNS - r.PausedNS }

// sameLength is by how much of themselves windows may differ that were asked to last equally
// long: clocks that are compared drift, a little.
const sameLength = 1e-3

// findWindow takes the window from the first that opened. Of windows bounded by time, each is
// as long as the others, and so is the whole; those bounded by requests last until the last
// part has made its own.
func (m *merger) findWindow() {
	r, first := &m.result, m.parts[0].Result.Client
	r.BeginNS = first.BeginNS
	shortest, longest, all, last := first.lengthNS(), first.lengthNS(), int64(0), first.EndNS
	for p := range m.clients() {
		r.BeginNS, last = min(r.BeginNS, p.BeginNS), max(last, p.EndNS)
		r.PausedNS, r.Pauses = max(r.PausedNS, p.PausedNS), max(r.Pauses, p.Pauses)
		r.EndedEarly = r.EndedEarly || p.EndedEarly
		shortest, longest = min(shortest, p.lengthNS()), max(longest, p.lengthNS())
		all += p.lengthNS()
	}
	r.EndNS = last
	if float64(longest-shortest) <= sameLength*float64(longest) {
		r.EndNS = r.BeginNS + all/int64(len(m.parts)) + r.PausedNS
	}
}

// clients yields each part's result.
func (m *merger) clients() iter.Seq[*ClientResult] {
	return func(yield func(*ClientResult) bool) {
		for i := range m.parts {
			if !yield(m.parts[i].Result.Client) {
				return
			}
		}
	}
}

// counts adds up what was counted. Means over the window are weighted with each part's own, so
// that Little's law holds for the whole as it does for each.
func (m *merger) counts() {
	r := &m.result
	failedNS := new(int64)
	for p := range m.clients() {
		r.Requests += p.Requests
		r.Completed += p.Completed
		r.Straddling += p.Straddling
		r.StraddlingNS += p.StraddlingNS
		r.BacklogNS += p.BacklogNS
		r.ThoughtNS += p.ThoughtNS
		r.BetweenNS += p.BetweenNS
		weight := float64(p.lengthNS()) / float64(max(1, r.lengthNS()))
		r.InFlight += p.InFlight * weight
		r.Active += p.Active * weight
		failedNS = sum(failedNS, p.FailedNS)
		m.countAnswers(p)
	}
	r.FailedNS = failedNS
	slices.SortFunc(r.Failures, func(a, b record.ErrorCount) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Class, b.Class))
	})
	slices.SortFunc(r.Statuses, func(a, b record.StatusCount) int { return cmp.Compare(a.Status, b.Status) })
	slices.SortFunc(r.Traces, func(a, b record.Trace) int {
		return cmp.Or(cmp.Compare(b.ServiceNS, a.ServiceNS), cmp.Compare(a.AfterNS, b.AfterNS))
	})
	r.Traces = r.Traces[:min(len(r.Traces), load.KeptTraces)]
}

// countAnswers adds what a part saw of the answers.
func (m *merger) countAnswers(p *ClientResult) {
	r := &m.result
	for _, failed := range p.Failures {
		i := slices.IndexFunc(r.Failures, func(f record.ErrorCount) bool { return f.Class == failed.Class && f.Code == failed.Code })
		if i < 0 {
			r.Failures = append(r.Failures, failed)
		} else {
			r.Failures[i].Count += failed.Count
		}
	}
	for _, status := range p.Statuses {
		i := slices.IndexFunc(r.Statuses, func(s record.StatusCount) bool { return s.Status == status.Status })
		if i < 0 {
			r.Statuses = append(r.Statuses, status)
		} else {
			r.Statuses[i].Count += status.Count
		}
	}
	if c := p.Checking; c != nil {
		so := record.Checking{}
		if r.Checking != nil {
			so = *r.Checking
		}
		r.Checking = &record.Checking{Answers: so.Answers + c.Answers, Whole: so.Whole + c.Whole, TookNS: so.TookNS + c.TookNS}
	}
	r.Traced += p.Traced
	for _, trace := range p.Traces {
		trace.AfterNS += p.BeginNS - r.BeginNS
		r.Traces = append(r.Traces, trace)
	}
}

// sum adds a figure that may not be known; the sum is then not known either.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

func (m *merger) pacing() {
	for p := range m.clients() {
		if p.Pacing == nil {
			continue
		}
		if m.result.Pacing == nil {
			m.result.Pacing = &record.Pacing{}
		}
		into := m.result.Pacing
		into.Scheduled += p.Pacing.Scheduled
		into.Queued += p.Pacing.Queued
		into.Unsent += p.Pacing.Unsent
		into.SpunNS += p.Pacing.SpunNS
	}
}

// warmUp is over when it is over for all.
func (m *merger) warmUp() {
	into := &m.result.WarmUp
	into.Settled = true
	longest, requests := new(int64), new(int64)
	for p := range m.clients() {
		w := p.WarmUp
		into.TookNS = max(into.TookNS, w.TookNS)
		into.Requests += w.Requests
		into.Settled = into.Settled && w.Settled
		into.Method = cmp.Or(into.Method, w.Method)
		if w.LearntNS != nil && (into.LearntNS == nil || *into.LearntNS < *w.LearntNS) {
			into.LearntNS = w.LearntNS
		}
		requests = sum(requests, w.EnoughRequests)
		if w.EnoughNS == nil || longest == nil {
			longest = nil
		} else {
			longest = new(max(*longest, *w.EnoughNS))
		}
	}
	into.EnoughNS, into.EnoughRequests = longest, requests
}

// agreed is what the parts' connections agreed on, and which program made the calls.
func (m *merger) agreed() {
	var protocols, clients, servers, programs []string
	for p := range m.clients() {
		programs = append(programs, p.ClientProgram)
		n := p.Negotiated
		if n == nil {
			continue
		}
		if m.result.Negotiated == nil {
			m.result.Negotiated = &record.Negotiated{}
		}
		protocols = append(protocols, n.Protocol)
		clients, servers = append(clients, n.ClientCongestion), append(servers, n.ServerCongestion)
		m.result.Negotiated.Sessions = addSessions(m.result.Negotiated.Sessions, n.Sessions)
	}
	m.result.ClientProgram = listed(programs)
	if n := m.result.Negotiated; n != nil {
		n.Protocol, n.ClientCongestion, n.ServerCongestion = listed(protocols), listed(clients), listed(servers)
	}
}

func addSessions(into, from []record.Session) []record.Session {
	for _, s := range from {
		i := slices.IndexFunc(into, func(known record.Session) bool {
			known.Connections = s.Connections
			return known == s
		})
		if i < 0 {
			into = append(into, s)
		} else {
			into[i].Connections += s.Connections
		}
	}
	return into
}

// listed joins lists that may have several names, with commas, to one that has each once.
func listed(lists []string) string {
	var names []string
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ",")
}

// distributions merges those of the whole client; the named calls have theirs already.
func (m *merger) distributions() error {
	r := &m.result
	var all error
	merge := func(name string, of func(*ClientResult) *latency.Distribution) *latency.Distribution {
		merged, err := m.distribution(of)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
		}
		return merged
	}
	service := func(p *ClientResult) *latency.Distribution { return &p.Service }
	if merged := merge("service times", service); merged != nil {
		r.Service = *merged
	}
	if m.any(func(p *ClientResult) bool { return p.Response != nil }) {
		// Where a part has none, it is the service time.
		r.Response = merge("response times", func(p *ClientResult) *latency.Distribution { return cmp.Or(p.Response, &p.Service) })
	}
	r.Wait = merge("waiting times", func(p *ClientResult) *latency.Distribution { return p.Wait })
	r.Messages = merge("messages", func(p *ClientResult) *latency.Distribution { return p.Messages })
	if r.Pacing != nil {
		late := merge("lateness", func(p *ClientResult) *latency.Distribution {
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
	c.Connect = merge("times to connect", func(p *ClientResult) *latency.Distribution { return p.Connections.Connect })
	c.Handshake = merge("handshakes", func(p *ClientResult) *latency.Distribution { return p.Connections.Handshake })
	c.FirstByte = merge("first bytes", func(p *ClientResult) *latency.Distribution { return p.Connections.FirstByte })
	for i := range r.Named {
		named := &r.Named[i]
		of := func(p *ClientResult) *record.NamedCalls { return findNamed(p.Named, named.Name) }
		service := merge(named.Name, func(p *ClientResult) *latency.Distribution {
			if calls := of(p); calls != nil {
				return &calls.Service
			}
			return nil
		})
		named.Service = *cmp.Or(service, &latency.Distribution{})
		if named.Response != nil {
			named.Response = merge(named.Name, func(p *ClientResult) *latency.Distribution {
				if calls := of(p); calls != nil {
					return cmp.Or(calls.Response, &calls.Service)
				}
				return nil
			})
		}
	}
	return all
}

func (m *merger) any(is func(*ClientResult) bool) bool {
	return slices.ContainsFunc(m.parts, func(p Part) bool { return is(p.Result.Client) })
}

// distribution is that of all parts which have one; nil: none has.
func (m *merger) distribution(of func(*ClientResult) *latency.Distribution) (*latency.Distribution, error) {
	var have []latency.Distribution
	for i := range m.parts {
		d := of(m.parts[i].Result.Client)
		if d == nil {
			continue
		}
		if d.Histogram != "" {
			if _, err := d.Decode(); err != nil {
				return nil, fmt.Errorf("of %s: %w", m.parts[i].Agent, err)
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

// named adds up the calls by their names; their distributions follow.
func (m *merger) named() {
	r := &m.result
	for p := range m.clients() {
		for _, calls := range p.Named {
			into := findNamed(r.Named, calls.Name)
			if into == nil {
				r.Named = append(r.Named, record.NamedCalls{Name: calls.Name})
				into = &r.Named[len(r.Named)-1]
			}
			into.Requests += calls.Requests
			into.Completed += calls.Completed
			into.CompletedWell += calls.CompletedWell
			into.Failed += calls.Failed
			into.Response = cmp.Or(into.Response, calls.Response)
		}
	}
	slices.SortFunc(r.Named, func(a, b record.NamedCalls) int { return cmp.Compare(a.Name, b.Name) })
}

func findNamed(in []record.NamedCalls, name string) *record.NamedCalls {
	i := slices.IndexFunc(in, func(c record.NamedCalls) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &in[i]
}
