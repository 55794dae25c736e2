package record

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/sum"
)

// Measurement holds what the client measured of its calls, as its worker reports it.
type Measurement struct {
	// ClientProgram names the program of others that made the calls, with its version;
	// empty if wirelab's own client did. The window is then that program's life,
	// from its start to its end. Of the service times only the totals are known;
	// InFlight, Active, the connections and the engine are unknown.
	ClientProgram string `json:"client_program,omitempty"`

	// EndedEarly: somebody ended the load, and with it the window, before its time. The window is
	// shorter, and has fewer requests, than planned.
	EndedEarly bool `json:"ended_early,omitempty"`
	// Pauses counts the pauses of the load, those of the warm-up included. PausedNS is the
	// paused time between the window's edges, which is no part of WindowNS. The instants of
	// intervals, course and samples leave pauses out.
	Pauses   int64 `json:"pauses,omitempty"`
	PausedNS int64 `json:"paused_ns,omitempty"`

	Requests   int64 `json:"requests"`   // measured, failed ones included
	Completed  int64 `json:"completed"`  // ended within the window, whenever they began
	Straddling int64 `json:"straddling"` // in flight at an edge of the window
	// StraddlingNS is the sum of the straddling calls' times.
	StraddlingNS int64 `json:"straddling_ns,omitempty"`
	// BacklogNS sums the times of calls that were due on one side of an edge of the window and
	// sent on the other.
	BacklogNS int64 `json:"backlog_ns,omitempty"`
	// InFlight is the mean number of calls in flight over the window, from
	// the time each client spent in calls, clipped to the window.
	InFlight float64 `json:"in_flight"`
	// Active is the mean number of clients at work: below the number of clients if
	// some had made their requests before others.
	Active float64 `json:"active"`

	// Service counts from the actual send, Response from the intended one. Response
	// is absent in a closed loop without a limit: there the two are equal. Wait is
	// the time before a permit of the in-flight limit, part of Response.
	Service  latency.Distribution  `json:"service"`
	Response *latency.Distribution `json:"response,omitempty"`
	Wait     *latency.Distribution `json:"wait,omitempty"`
	// FailedNS is the sum of the failed calls' times, which Service holds too. Older
	// records lack it.
	FailedNS *int64 `json:"failed_ns,omitempty"`
	// Messages holds the times of the messages of streams' answers: each from the send of the
	// message that it answers if both ends send many, otherwise from the message before it, or
	// the call's begin.
	Messages *latency.Distribution `json:"messages,omitempty"`
	// Statuses counts the answers by status, right or wrong, for callers that report one.
	Statuses []StatusCount `json:"statuses,omitempty"`

	// Named holds the calls by name, in the order of the names, if they have any.
	Named []NamedCalls `json:"named,omitempty"`
	// ThoughtNS is the think time of all clients in the window. It is part of no call, and of no
	// time between calls.
	ThoughtNS int64 `json:"thought_ns,omitempty"`
	// Checking is the cost of checking the answers, if they had to meet more than a good status.
	Checking *Checking `json:"checking,omitempty"`
	// Traced counts the calls that a tracing system was asked to follow; Traces names the traces
	// of the slowest ones.
	Traced int64   `json:"traced,omitempty"`
	Traces []Trace `json:"traces,omitempty"`

	WarmUp    WarmUp     `json:"warm_up"`
	Intervals []Interval `json:"intervals,omitempty"` // from the first request on, warm-up included
	// Course is coarser than Intervals and has more. Older records lack it.
	Course *Course `json:"course,omitempty"`

	// Negotiated holds what the client's connections and their peers agreed on.
	// Older records lack it.
	Negotiated *Negotiated `json:"negotiated,omitempty"`

	Pacing *Pacing `json:"pacing,omitempty"` // open loop only
	Search *Search `json:"search,omitempty"` // load model search only
}

// Plus adds up the measurements of two groups of clients in one window. The means InFlight and
// Active are over that window, so that they add up.
//
// The distributions of m stay: latency.MergeDistributions adds up many at once. So do
// its Intervals and Course, whose instants need a grid, and its Search, which groups cannot share.
func (m Measurement) Plus(other Measurement) Measurement {
	m.ClientProgram = joinNames(m.ClientProgram, other.ClientProgram)
	m.EndedEarly = m.EndedEarly || other.EndedEarly
	m.Pauses, m.PausedNS = max(m.Pauses, other.Pauses), max(m.PausedNS, other.PausedNS)
	m.Requests += other.Requests
	m.Completed += other.Completed
	m.Straddling += other.Straddling
	m.StraddlingNS += other.StraddlingNS
	m.BacklogNS += other.BacklogNS
	m.InFlight += other.InFlight
	m.Active += other.Active
	m.FailedNS = sum.AddIntsIfBoth(m.FailedNS, other.FailedNS)
	m.Statuses = PlusStatuses(m.Statuses, other.Statuses)
	m.Named = plusNamed(m.Named, other.Named)
	m.ThoughtNS += other.ThoughtNS
	m.Checking = sum.AddPresent(m.Checking, other.Checking)
	m.Traced += other.Traced
	m.Traces = PlusTraces(m.Traces, other.Traces)
	m.WarmUp = m.WarmUp.Plus(other.WarmUp)
	m.Negotiated = sum.AddPresent(m.Negotiated, other.Negotiated)
	m.Pacing = sum.AddPresent(m.Pacing, other.Pacing)
	return m
}

// An ErrorCount counts one class of failure.
type ErrorCount struct {
	// Class is the fault of the call, as package failure names it: "refused",
	// "port-exhaustion", "tls-alert: bad certificate".
	Class string `json:"class,omitempty"`
	// Code is a gRPC status code, a status of HTTP, the condition that an answer did not
	// meet, or "WrongAnswer".
	Code    string `json:"code"`
	Count   int64  `json:"count"`
	Example string `json:"example"` // the first one, verbatim
}

// Plus returns the count of both, with the first example.
func (e ErrorCount) Plus(other ErrorCount) ErrorCount {
	e.Count += other.Count
	return e
}

// PlusErrors returns the errors of both lists, by class and code.
func PlusErrors(a, b []ErrorCount) []ErrorCount {
	return sum.ByKey(a, b, func(e ErrorCount) [2]string { return [2]string{e.Class, e.Code} })
}

// StatusCount counts the answers with a status of HTTP, or a code of gRPC.
type StatusCount struct {
	Status int   `json:"status"`
	Count  int64 `json:"count"`
}

// Plus returns the count of both.
func (s StatusCount) Plus(other StatusCount) StatusCount {
	s.Count += other.Count
	return s
}

// PlusStatuses returns the answers of both lists, in the order of their statuses.
func PlusStatuses(a, b []StatusCount) []StatusCount {
	all := sum.ByKey(a, b, func(s StatusCount) int { return s.Status })
	slices.SortFunc(all, func(a, b StatusCount) int { return cmp.Compare(a.Status, b.Status) })
	return all
}

// NamedCalls holds the calls of one name, such as a step of a user's journey.
type NamedCalls struct {
	Name          string                `json:"name"`
	Requests      int64                 `json:"requests"`       // measured, failed ones included
	Completed     int64                 `json:"completed"`      // ended within the window, whenever they began
	CompletedWell int64                 `json:"completed_well"` // the completed calls that did not fail
	Failed        int64                 `json:"failed"`         // of the requests
	Service       latency.Distribution  `json:"service"`
	Response      *latency.Distribution `json:"response,omitempty"` // absent if it equals Service
}

// Plus returns the counts of both. The distributions of n stay; Response is there if one of the
// two has it.
func (n NamedCalls) Plus(other NamedCalls) NamedCalls {
	n.Requests += other.Requests
	n.Completed += other.Completed
	n.CompletedWell += other.CompletedWell
	n.Failed += other.Failed
	n.Response = cmp.Or(n.Response, other.Response)
	return n
}

func plusNamed(a, b []NamedCalls) []NamedCalls {
	all := sum.ByKey(a, b, func(n NamedCalls) string { return n.Name })
	slices.SortFunc(all, func(a, b NamedCalls) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Checking counts the checked answers, including the warm-up's, and the time that the checks took
// from the clients' time between calls.
type Checking struct {
	Answers int64 `json:"answers"` // that were checked
	Whole   int64 `json:"whole"`   // checked by all conditions; the others only by conditions that need no body
	TookNS  int64 `json:"took_ns"` // of all clients together
}

// Plus returns the sum of both.
func (c Checking) Plus(other Checking) Checking {
	c.Answers += other.Answers
	c.Whole += other.Whole
	c.TookNS += other.TookNS
	return c
}

// Trace is a call that a tracing system follows.
type Trace struct {
	ID        string `json:"id"`         // in 32 hexadecimal digits, as W3C Trace Context has it
	ServiceNS int64  `json:"service_ns"` // from the actual send to the answer
	AfterNS   int64  `json:"after_ns"`   // it was sent, from the window's begin
	Failed    bool   `json:"failed,omitempty"`
}

// KeptTraces is the number of traces that a measurement names. It names the slowest calls.
const KeptTraces = 10

// PlusTraces returns the slowest of both lists, the slowest first.
func PlusTraces(a, b []Trace) []Trace {
	all := slices.Concat(a, b)
	slices.SortFunc(all, Trace.CompareSlower)
	return all[:min(len(all), KeptTraces)]
}

// CompareSlower orders the slower call first, and among equals the one that was sent first.
func (t Trace) CompareSlower(other Trace) int {
	return cmp.Or(cmp.Compare(other.ServiceNS, t.ServiceNS), cmp.Compare(t.AfterNS, other.AfterNS))
}

// WarmUp describes the time before the window.
type WarmUp struct {
	TookNS   int64 `json:"took_ns"`
	Requests int64 `json:"requests"`
	// Settled reports whether the detector saw a steady state before the
	// longest warm-up was over.
	Settled bool   `json:"settled"`
	Method  string `json:"method"` // how it was detected
	// LearntNS is the least warm-up that earlier trials of the cell needed. It is absent if their
	// warm-up was enough.
	LearntNS *int64 `json:"learnt_ns,omitempty"`
	// EnoughNS and EnoughRequests say when the steady state began, judged
	// afterwards over warm-up and window together. They are absent if it
	// did not.
	EnoughNS       *int64 `json:"enough_ns,omitempty"`
	EnoughRequests *int64 `json:"enough_requests,omitempty"`
}

// Plus returns the warm-up of both. It is over when both are.
func (w WarmUp) Plus(other WarmUp) WarmUp {
	w.TookNS = max(w.TookNS, other.TookNS)
	w.Requests += other.Requests
	w.Settled = w.Settled && other.Settled
	w.Method = cmp.Or(w.Method, other.Method)
	if w.LearntNS == nil || other.LearntNS != nil && *other.LearntNS > *w.LearntNS {
		w.LearntNS = other.LearntNS
	}
	if w.EnoughNS == nil || other.EnoughNS == nil {
		w.EnoughNS = nil
	} else {
		w.EnoughNS = new(max(*w.EnoughNS, *other.EnoughNS))
	}
	w.EnoughRequests = sum.AddIntsIfBoth(w.EnoughRequests, other.EnoughRequests)
	return w
}

// An Interval is one step of the trial's course.
type Interval struct {
	StartNS  int64 `json:"start_ns"` // relative to the window's start: negative in warm-up
	TookNS   int64 `json:"took_ns"`
	Requests int64 `json:"requests"`
	SumNS    int64 `json:"sum_ns"` // of their service times
}

// Pacing says how well an open loop kept its schedule.
type Pacing struct {
	Scheduled int64 `json:"scheduled"` // arrivals that fell into the window
	// Late is the generator's own lateness: the time until the client was ready
	// to send, from the intended instant or from the end of the client's last
	// call, whichever is later.
	Late   latency.Distribution `json:"late"`
	Queued int64                `json:"queued"`  // arrivals that found no free client
	Unsent int64                `json:"unsent"`  // arrivals that never went out
	SpunNS int64                `json:"spun_ns"` // CPU time spent waiting for instants
}

// Plus returns the sum of both, with the Late of p.
func (p Pacing) Plus(other Pacing) Pacing {
	p.Scheduled += other.Scheduled
	p.Queued += other.Queued
	p.Unsent += other.Unsent
	p.SpunNS += other.SpunNS
	return p
}

// Search holds the result of a search for the highest rate. The record's other figures come
// from a successful try at the highest rate that kept the goal. A rate is kept or missed when
// two of up to three tries agree.
type Search struct {
	KeptPerSecond   float64 `json:"kept_per_second"`   // the highest rate that kept the goal
	MissedPerSecond float64 `json:"missed_per_second"` // the lowest rate above it that did not
	Steps           []Step  `json:"steps"`
	Why             string  `json:"why,omitempty"` // the reason why it ended before the two came close
}

// A Step is one rate that a search tried.
type Step struct {
	RatePerSecond     float64 `json:"rate_per_second"`
	AchievedPerSecond float64 `json:"achieved_per_second"`
	FigureNS          int64   `json:"figure_ns"`          // of the goal's percentile
	Requests          int64   `json:"requests,omitempty"` // measured; absent in older records
	Kept              bool    `json:"kept"`
	Why               string  `json:"why,omitempty"`
}

// ServedPerSecond returns the rate of ended calls in at most that many equal stretches of the
// window, in order. It leaves out intervals that an edge of the window cuts.
func (m *Measurement) ServedPerSecond(windowNS int64, most int) []float64 {
	var within []Interval
	for _, i := range m.Intervals {
		if i.StartNS >= 0 && i.StartNS+i.TookNS <= windowNS && i.TookNS > 0 {
			within = append(within, i)
		}
	}
	each := max(1, len(within)/most)
	var rates []float64
	for len(within) >= each {
		var stretch Interval
		for _, i := range within[:each] {
			stretch.TookNS += i.TookNS
			stretch.Requests += i.Requests
		}
		within = within[each:]
		if len(rates) < most {
			rates = append(rates, float64(stretch.Requests)/float64(stretch.TookNS)*1e9)
		}
	}
	return rates
}

// Course holds figures of a trial over time, in stretches of one length, warm-up included.
type Course struct {
	BeginNS   int64    `json:"begin_ns"`   // of the first stretch, relative to the window's start: negative in warm-up
	StretchNS int64    `json:"stretch_ns"` // the length of each stretch
	Calls     []int64  `json:"calls"`      // calls that ended in each stretch
	P99NS     []*int64 `json:"p99_ns"`     // of their service times, within 7 %; null if fewer than 100 ended
	// Failed counts the calls that failed. Older records lack it, and the next three.
	Failed []int64 `json:"failed,omitempty"`
	// The calls' response times, from the intended send; in a closed loop without a limit their
	// service times. Within 7 %; null if fewer than 10, 100 and 1 ended.
	ResponseP50NS []*int64 `json:"response_p50_ns,omitempty"`
	ResponseP99NS []*int64 `json:"response_p99_ns,omitempty"`
	ResponseMaxNS []*int64 `json:"response_max_ns,omitempty"`
	// CPU time of each end; absent if it was not sampled.
	ClientCPUNS []int64 `json:"client_cpu_ns,omitempty"`
	ServerCPUNS []int64 `json:"server_cpu_ns,omitempty"`
}

// CourseCalls is the number of calls that a stretch needs for a P99, and CourseMedianCalls for a
// P50.
const (
	CourseCalls       = 100
	CourseMedianCalls = 10
)
