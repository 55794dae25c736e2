// Package crowd merges several clients that work at the same time, on several machines, into one.
//
//	one spec ── Split ──> a spec per client
//	progress and intervals, while they run ── Tracker, Stream ──> one progress
//	results ── Merge ──> one result
//
// It sums types of package worker, whose methods Plus are there. It must not know how the
// clients are reached.
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

// Merge merges the results of several clients that worked at the same time. As far as that can be
// known, one client with all their callers would have measured the same: counts are summed, and
// distributions include all calls. Instants of all parts must be on one clock.
//
// intervals holds the interval events of each part, in the order of the parts. If a part has
// none, there is no course. Figures with a meaning on one machine only are left out.
func Merge(parts []worker.Part, intervals [][]worker.Interval) (*worker.ClientResult, error) {
	if len(parts) == 0 {
		return nil, errors.New("merge clients: there are none")
	}
	for _, p := range parts {
		if err := check(&p, parts[0].Result.Client); err != nil {
			return nil, fmt.Errorf("merge clients: %s %w", p.Agent, err)
		}
	}
	m := merger{parts: parts, clients: lists.Map(parts, func(p worker.Part) *worker.ClientResult { return p.Result.Client })}
	m.findWindow()
	m.sum()
	m.result.Intervals = m.intervals()
	if err := m.distributions(); err != nil {
		return nil, fmt.Errorf("merge clients: %w", err)
	}
	if err := m.course(intervals); err != nil {
		return nil, fmt.Errorf("merge clients: %w", err)
	}
	return &m.result, nil
}

// farthestApart bounds the time between instants of one trial. They come from other machines,
// and they determine how much memory a merge takes.
const farthestApart = 24 * time.Hour

// check refuses a part that cannot be one of several. first is the result of the first part.
func check(p *worker.Part, first *worker.ClientResult) error {
	r := p.Result.Client
	switch {
	case r == nil || first == nil:
		return errors.New("has no result of a client")
	case r.Search != nil:
		return errors.New("ran a search, which cannot be one of several")
	case areFarApart(r.BeginNS, r.EndNS) || r.LengthNS() <= 0 || r.PausedNS < 0:
		return fmt.Errorf("has a window from %d to %d ns, %d of it paused", r.BeginNS, r.EndNS, r.PausedNS)
	case areFarApart(r.BeginNS, first.BeginNS):
		return fmt.Errorf("opened its window at %d ns, and another at %d: want instants of one clock", r.BeginNS, first.BeginNS)
	}
	for _, i := range r.Intervals {
		if i.TookNS < 0 || i.Requests < 0 || areFarApart(i.StartNS, 0) || areFarApart(i.TookNS, 0) {
			return fmt.Errorf("has an interval that begins %d ns after its window, took %d, and has %d calls", i.StartNS, i.TookNS, i.Requests)
		}
	}
	return checkCounts(r)
}

// areFarApart compares as float64, so that the difference cannot overflow.
func areFarApart(a, b int64) bool {
	return math.Abs(float64(a)-float64(b)) > float64(farthestApart)
}

// mostAtOnce bounds the mean calls in flight of a part, so that no sum of them is infinite.
const mostAtOnce = 1e12

func checkCounts(r *worker.ClientResult) error {
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

// Check refuses an impossible result of a client, which another machine may send.
func Check(p *worker.Part) error {
	err := check(p, p.Result.Client)
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
	parts   []worker.Part
	clients []*worker.ClientResult // of the parts
	result  worker.ClientResult
}

// sameLength is the relative difference up to which windows of one planned length count as
// equally long: the clocks of two machines drift a little.
const sameLength = 1e-3

// findWindow sets the window of the whole, which opens with the first part's. If all windows are
// equally long, as those bounded by time are, it is as long as each; otherwise, as with those
// bounded by requests, it lasts until the last part has ended.
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
	if float64(longest-shortest) <= sameLength*float64(longest) {
		r.EndNS = r.BeginNS + all/int64(len(m.parts)) + r.PausedNS
	}
}

// sum adds up the results of the parts. Means over the window are weighted by the length of each
// part's window, so that Little's law holds for the whole as for each part. The span of the
// traffic keeps its ratio to the window.
func (m *merger) sum() {
	window := m.result
	var lengths float64
	for i := range m.parts {
		p := seenFromWhole(&m.parts[i], &window)
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

// seenFromWhole returns a part's result with means and instants relative to the whole's window.
func seenFromWhole(part *worker.Part, whole *worker.ClientResult) worker.ClientResult {
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

func (m *merger) distributions() error {
	r := &m.result
	var all error
	merge := func(name string, of func(*worker.ClientResult) *latency.Distribution) *latency.Distribution {
		merged, err := m.distribution(of)
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
		// A part without response times has service times that equal them.
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
	for i := range r.Named {
		named := &r.Named[i]
		of := func(p *worker.ClientResult) *record.NamedCalls { return findNamed(p.Named, named.Name) }
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
	return all
}

// distribution merges the distributions of the parts that have one; it is nil if none has.
func (m *merger) distribution(of func(*worker.ClientResult) *latency.Distribution) (*latency.Distribution, error) {
	var have []latency.Distribution
	for i, p := range m.clients {
		d := of(p)
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

func findNamed(in []record.NamedCalls, name string) *record.NamedCalls {
	i := slices.IndexFunc(in, func(c record.NamedCalls) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &in[i]
}
