package record

import (
	"cmp"
	"fmt"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/sum"
)

// Measurement holds the client's measurements of its calls, as its worker reports them.
type Measurement struct {
	// ClientProgram is the name and version of the other program that made the calls. It is empty
	// if wirelab's own client made the calls. With such a program, the window is the time from its
	// start to its end. Only the totals of the service times are known. InFlight, Active, the
	// connections and the engine are unknown.
	ClientProgram string `json:"client_program,omitempty"`

	// EndedEarly reports that a user ended the load before its planned end. The window is shorter
	// and has fewer requests than planned.
	EndedEarly bool `json:"ended_early,omitempty"`
	// Pauses counts the pauses of the load, including those in the warm-up. PausedNS is the paused
	// time inside the window; WindowNS excludes the paused time. The times in intervals, course and
	// samples exclude pauses too.
	Pauses   int64 `json:"pauses,omitempty"`
	PausedNS int64 `json:"paused_ns,omitempty"`
	// Slices lists the stretches that are the window of a trial in a block, in which trials take
	// turns: the time between them is in PausedNS. The first calls of each turn are not measured;
	// EndedBetween counts the calls that ended between slices, before the first and after the last.
	Slices       []Slice `json:"slices,omitempty"`
	EndedBetween int64   `json:"ended_between,omitempty"`

	Requests int64 `json:"requests"` // measured requests, including failed ones
	// Resent counts how often measured requests were sent again after an attempt without an answer, or because the
	// server refused early data.
	Resent int64 `json:"resent,omitempty"`
	// Outside counts all other calls of the client, if it counts them: those of the warm-up and of
	// logins, those that kept up the load while the last measured calls ended, and those of other steps
	// of a search. Requests that were sent again count once for each time.
	Outside *int64 `json:"outside,omitempty"`
	// Calls that ended inside the window, even if they began before it.
	Completed  int64 `json:"completed"`
	Straddling int64 `json:"straddling"` // calls that were in flight when the window began or ended
	// StraddlingNS is the sum of the durations of the straddling calls.
	StraddlingNS int64 `json:"straddling_ns,omitempty"`
	// BacklogNS is the time that calls waited to be sent, for calls that were due before an edge of
	// the window and sent after it.
	BacklogNS int64 `json:"backlog_ns,omitempty"`
	// InFlight is the mean number of calls in flight during the window. It is the clients' time in
	// calls inside the window, divided by the window.
	InFlight float64 `json:"in_flight"`
	// Active is the mean number of working clients. It is below the number of clients if some
	// clients finished their requests early.
	Active float64 `json:"active"`

	// Service counts from the actual send, Response from the intended send. Response is absent in a
	// closed loop without a limit, because it would equal Service. Wait is the time that calls
	// waited for a free place in the in-flight limit. Response includes Wait.
	Service  latency.Distribution  `json:"service"`
	Response *latency.Distribution `json:"response,omitempty"`
	Wait     *latency.Distribution `json:"wait,omitempty"`
	// FailedNS is the sum of the failed calls' durations. Service includes these durations too.
	// Older records lack FailedNS.
	FailedNS *int64 `json:"failed_ns,omitempty"`
	// Messages holds the times of the messages in streamed answers. If both ends send many
	// messages, a time counts from the request message that was answered. Otherwise it counts from
	// the previous message, or from the begin of the call. On held streams, a time counts from the
	// instant in the message at which it was sent, or from the stream's previous message.
	Messages *latency.Distribution `json:"messages,omitempty"`
	// Statuses counts all answers by status, for callers that report a status.
	Statuses []StatusCount `json:"statuses,omitempty"`
	// Answers counts the answers of calls that did not fail by size, for callers that report a size.
	Answers *Answers `json:"answers,omitempty"`
	// Bytes counts the bytes of those measured calls that got an answer, above TLS. It is absent if the
	// callers do not know them.
	Bytes *CallBytes `json:"bytes,omitempty"`
	// ByConnection lists the calls of each connection, if each client had a connection of its own.
	ByConnection []ConnectionCalls `json:"by_connection,omitempty"`

	// Named holds the figures of the calls by name, sorted by name. It is empty if calls have no
	// names.
	Named []NamedCalls `json:"named,omitempty"`
	// Addresses describes the addresses of the service, if calls went to several of them. ByAddress holds
	// the figures of the calls to each one that was called.
	Addresses *Addresses   `json:"addresses,omitempty"`
	ByAddress []NamedCalls `json:"by_address,omitempty"`
	// ThoughtNS is the think time of all clients in the window. The times of calls and
	// Engine.BetweenNS exclude think time.
	ThoughtNS int64 `json:"thought_ns,omitempty"`
	// Streams counts the held streams and their messages, if clients held streams.
	Streams *Streams `json:"streams,omitempty"`
	// Checking is the cost of checking answers, if conditions other than the status were checked.
	Checking *Checking `json:"checking,omitempty"`
	// Traced counts the calls that were marked for a tracing system. Traces names the slowest of
	// these calls.
	Traced int64   `json:"traced,omitempty"`
	Traces []Trace `json:"traces,omitempty"`

	WarmUp WarmUp `json:"warm_up"`
	// From the first request on, including the warm-up.
	Intervals []Interval `json:"intervals,omitempty"`
	// Course is coarser than Intervals and has more figures. Older records have no Course.
	Course *Course `json:"course,omitempty"`

	// Negotiated holds the protocols and options that the connections negotiated. Older records
	// have no Negotiated.
	Negotiated *Negotiated `json:"negotiated,omitempty"`

	Pacing *Pacing `json:"pacing,omitempty"` // only in an open loop
	Search *Search `json:"search,omitempty"` // only in the load model search
}

// Plus adds up the measurements of two groups of clients in one window. InFlight and Active are
// means over the same window, so Plus adds them too.
//
// Plus keeps some fields of m and ignores those of other: the distributions, which
// latency.MergeDistributions adds up; Intervals and Course, whose times need a common grid; and
// Search, which two groups cannot share.
func (m Measurement) Plus(other Measurement) Measurement {
	m.ClientProgram = joinNames(m.ClientProgram, other.ClientProgram)
	m.EndedEarly = m.EndedEarly || other.EndedEarly
	m.Pauses, m.PausedNS = max(m.Pauses, other.Pauses), max(m.PausedNS, other.PausedNS)
	m.Slices = sum.ByKey(m.Slices, other.Slices, func(s Slice) int64 { return s.AtNS })
	m.EndedBetween += other.EndedBetween
	m.Requests += other.Requests
	m.Resent += other.Resent
	m.Outside = sum.AddIntsIfBoth(m.Outside, other.Outside)
	m.Completed += other.Completed
	m.Straddling += other.Straddling
	m.StraddlingNS += other.StraddlingNS
	m.BacklogNS += other.BacklogNS
	m.InFlight += other.InFlight
	m.Active += other.Active
	m.FailedNS = sum.AddIntsIfBoth(m.FailedNS, other.FailedNS)
	m.Statuses = PlusStatuses(m.Statuses, other.Statuses)
	m.Answers = sum.AddPresent(m.Answers, other.Answers)
	m.Bytes = sum.AddPresent(m.Bytes, other.Bytes)
	m.ByConnection = plusConnections(m.ByConnection, other.ByConnection)
	m.Named = plusNamed(m.Named, other.Named)
	m.Addresses = sum.AddPresent(m.Addresses, other.Addresses)
	m.ByAddress = plusNamed(m.ByAddress, other.ByAddress)
	m.ThoughtNS += other.ThoughtNS
	m.Streams = sum.AddPresent(m.Streams, other.Streams)
	m.Checking = sum.AddPresent(m.Checking, other.Checking)
	m.Traced += other.Traced
	m.Traces = PlusTraces(m.Traces, other.Traces)
	m.WarmUp = m.WarmUp.Plus(other.WarmUp)
	m.Negotiated = sum.AddPresent(m.Negotiated, other.Negotiated)
	m.Pacing = sum.AddPresent(m.Pacing, other.Pacing)
	return m
}

// CallBytes counts the bytes of calls that got an answer. A body is a gRPC call's messages, without their
// prefixes. A header is everything else that the call needs above TLS.
type CallBytes struct {
	Calls             int64 `json:"calls"`               // calls that got an answer
	SentBodyBytes     int64 `json:"sent_body_bytes"`     // bodies or messages of all requests
	ReceivedBodyBytes int64 `json:"received_body_bytes"` // bodies or messages of all answers
	// HeaderCalls counts the calls whose headers were counted. Libraries do not say how large headers
	// are.
	HeaderCalls         int64 `json:"header_calls,omitempty"`
	SentHeaderBytes     int64 `json:"sent_header_bytes,omitempty"`     // everything but the bodies of the requests
	ReceivedHeaderBytes int64 `json:"received_header_bytes,omitempty"` // everything but the bodies of the answers
}

// Plus adds the counts of b and other.
func (b CallBytes) Plus(other CallBytes) CallBytes {
	b.Calls += other.Calls
	b.SentBodyBytes += other.SentBodyBytes
	b.ReceivedBodyBytes += other.ReceivedBodyBytes
	b.HeaderCalls += other.HeaderCalls
	b.SentHeaderBytes += other.SentHeaderBytes
	b.ReceivedHeaderBytes += other.ReceivedHeaderBytes
	return b
}

// KnowsHeaders reports whether the headers of all calls were counted.
func (b *CallBytes) KnowsHeaders() bool { return b.HeaderCalls == b.Calls }

// A Slice is a stretch of a window in which trials take turns.
type Slice struct {
	AtNS      int64 `json:"at_ns"` // from the window's begin
	TookNS    int64 `json:"took_ns"`
	Requests  int64 `json:"requests"` // that began in it, failed ones included
	Failed    int64 `json:"failed,omitempty"`
	Completed int64 `json:"completed"` // that ended in it
	SumNS     int64 `json:"sum_ns"`    // of the response times of Requests
	// Time that other programs kept this trial's ends off their CPUs; 0 if nothing watched them.
	LostNS int64 `json:"lost_ns,omitempty"`
	// Pace compares the speed of the block's trials in this round of slices with their means. It is 1 unless
	// most were faster, or most were slower; 0 means unknown.
	Pace float64 `json:"pace,omitempty"`
}

// Plus returns the calls of both in the same slice.
func (s Slice) Plus(other Slice) Slice {
	s.Requests += other.Requests
	s.Failed += other.Failed
	s.Completed += other.Completed
	s.SumNS += other.SumNS
	s.LostNS += other.LostNS
	return s
}

// An ErrorCount counts the failures of one class and code.
type ErrorCount struct {
	// Class is the cause of the failure, as package failure names it: "refused", "port-exhaustion",
	// "tls-alert: bad certificate".
	Class string `json:"class,omitempty"`
	// Code is a gRPC status code, an HTTP status, the condition that an answer did not meet, or
	// "WrongAnswer".
	Code    string `json:"code"`
	Count   int64  `json:"count"`
	Example string `json:"example"` // text of the first such error
}

// Plus adds the counts of e and other, with the first example.
func (e ErrorCount) Plus(other ErrorCount) ErrorCount {
	e.Count += other.Count
	return e
}

// PlusErrors merges lists a and b and adds up errors with the same class and code.
func PlusErrors(a, b []ErrorCount) []ErrorCount {
	return sum.ByKey(a, b, func(e ErrorCount) [2]string { return [2]string{e.Class, e.Code} })
}

// StatusCount counts the answers with one HTTP status or gRPC code.
type StatusCount struct {
	Status int   `json:"status"`
	Count  int64 `json:"count"`
}

// Plus adds the counts of s and other.
func (s StatusCount) Plus(other StatusCount) StatusCount {
	s.Count += other.Count
	return s
}

// PlusStatuses merges both lists and adds up equal statuses. The result is sorted by status.
func PlusStatuses(a, b []StatusCount) []StatusCount {
	all := sum.ByKey(a, b, func(s StatusCount) int { return s.Status })
	slices.SortFunc(all, func(a, b StatusCount) int { return cmp.Compare(a.Status, b.Status) })
	return all
}

// NamedCalls holds the calls of one name, such as a step of a user's journey, or of one stage of a rate.
type NamedCalls struct {
	Name     string `json:"name"`
	Stage    int    `json:"stage,omitempty"` // from 1; 0 means that the calls have a name
	Requests int64  `json:"requests"`        // measured requests, including failed ones
	// Calls that ended inside the window, even if they began before it.
	Completed     int64                 `json:"completed"`
	CompletedWell int64                 `json:"completed_well"` // the completed calls that did not fail
	Failed        int64                 `json:"failed"`         // measured requests that failed
	Service       latency.Distribution  `json:"service"`
	Response      *latency.Distribution `json:"response,omitempty"` // absent if it equals Service
}

// StageName returns the name of the calls of a stage.
func StageName(stage int) string { return fmt.Sprint("stage ", stage) }

// Compare orders by stage, then by name.
func (n NamedCalls) Compare(other NamedCalls) int {
	return cmp.Or(cmp.Compare(n.Stage, other.Stage), cmp.Compare(n.Name, other.Name))
}

// Plus adds the counts of n and other. It keeps the distributions of n. Response is present if n or
// other has it.
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
	slices.SortFunc(all, NamedCalls.Compare)
	return all
}

// Checking counts the checked answers, including those of the warm-up. It also holds the time that
// the checks took, which is part of the clients' time between calls.
type Checking struct {
	Answers int64 `json:"answers"` // number of checked answers
	// Answers that all conditions checked; the other answers were checked without their body.
	Whole  int64 `json:"whole"`
	TookNS int64 `json:"took_ns"` // time of the checks, all clients together
}

// Plus adds the figures of c and other.
func (c Checking) Plus(other Checking) Checking {
	c.Answers += other.Answers
	c.Whole += other.Whole
	c.TookNS += other.TookNS
	return c
}

// Trace identifies a call that a tracing system records.
type Trace struct {
	ID        string `json:"id"`         // 32 hexadecimal digits, as in W3C Trace Context
	ServiceNS int64  `json:"service_ns"` // from the actual send to the answer
	AfterNS   int64  `json:"after_ns"`   // time from the window's begin to the actual send
	Failed    bool   `json:"failed,omitempty"`
}

// KeptTraces is the greatest number of traces in a measurement: those of the slowest calls.
const KeptTraces = 10

// PlusTraces merges two lists and returns the slowest traces, the slowest first.
func PlusTraces(a, b []Trace) []Trace {
	all := slices.Concat(a, b)
	slices.SortFunc(all, Trace.CompareSlower)
	return all[:min(len(all), KeptTraces)]
}

// CompareSlower orders the slower call first. Of equally slow calls, the earlier one is first.
func (t Trace) CompareSlower(other Trace) int {
	return cmp.Or(cmp.Compare(other.ServiceNS, t.ServiceNS), cmp.Compare(t.AfterNS, other.AfterNS))
}

// WarmUp describes the time before the window.
type WarmUp struct {
	TookNS   int64 `json:"took_ns"`
	Requests int64 `json:"requests"`
	// Settled reports whether the client detected a steady state before the longest warm-up ended.
	Settled bool   `json:"settled"`
	Method  string `json:"method"` // name of the detection method
	// LearntNS is the least warm-up that earlier trials of the cell needed. It is absent if those
	// trials had a long enough warm-up.
	LearntNS *int64 `json:"learnt_ns,omitempty"`
	// EnoughNS and EnoughRequests say when the steady state began. They are computed after the
	// trial from warm-up and window. They are absent if there was no steady state.
	EnoughNS       *int64 `json:"enough_ns,omitempty"`
	EnoughRequests *int64 `json:"enough_requests,omitempty"`
}

// Plus returns the common warm-up of two groups, which ends when the longer warm-up ends.
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

// An Interval holds the figures of one short interval of the trial.
type Interval struct {
	StartNS  int64 `json:"start_ns"` // relative to the window's start; negative in the warm-up
	TookNS   int64 `json:"took_ns"`
	Requests int64 `json:"requests"`
	SumNS    int64 `json:"sum_ns"` // sum of the calls' service times
}

// A Second counts the calls of all clients that ended in one second.
type Second struct {
	StartNS int64 `json:"start_ns"` // relative to the window's start; negative in the warm-up
	TookNS  int64 `json:"took_ns"`
	Ended   int64 `json:"ended"` // includes failed calls
	Failed  int64 `json:"failed"`
	// Histogram holds the response times, with two significant digits: a compressed HdrHistogram V2, in
	// base64.
	Histogram string `json:"hdr"`
}

// Pacing says how closely an open loop followed its schedule.
type Pacing struct {
	Scheduled int64 `json:"scheduled"` // arrivals planned inside the window
	// Late is the delay that the load generator itself caused. It counts until the client was ready
	// to send, from the intended instant or from the end of the client's previous call, whichever
	// is later.
	Late   latency.Distribution `json:"late"`
	Queued int64                `json:"queued"`  // arrivals for which no client was free
	Unsent int64                `json:"unsent"`  // arrivals that were never sent
	SpunNS int64                `json:"spun_ns"` // CPU time of spinning until the next instant
}

// Plus adds the counts of p and other. It keeps Late of p.
func (p Pacing) Plus(other Pacing) Pacing {
	p.Scheduled += other.Scheduled
	p.Queued += other.Queued
	p.Unsent += other.Unsent
	p.SpunNS += other.SpunNS
	return p
}

// Search holds the result of a search for the highest rate that meets a goal. The record's other
// figures come from a successful try at that rate. Two of up to three tries decide whether a rate
// meets the goal.
type Search struct {
	KeptPerSecond float64 `json:"kept_per_second"` // highest rate that met the goal
	// Lowest rate above KeptPerSecond that did not meet the goal.
	MissedPerSecond float64 `json:"missed_per_second"`
	Steps           []Step  `json:"steps"`
	// Why the search ended although KeptPerSecond and MissedPerSecond still differed much.
	Why string `json:"why,omitempty"`
}

// A Step is a try of one rate in a search.
type Step struct {
	RatePerSecond     float64 `json:"rate_per_second"`
	AchievedPerSecond float64 `json:"achieved_per_second"`
	FigureNS          int64   `json:"figure_ns"` // value of the goal's percentile
	// Measured requests; absent in older records.
	Requests int64  `json:"requests,omitempty"`
	Kept     bool   `json:"kept"`
	Why      string `json:"why,omitempty"`
}

// ServedPerSecond divides the window into at most that many equal stretches, and returns the rate
// of ended calls in each, in order. It leaves out intervals that are only partly inside the window.
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

// Course holds figures over time of a trial, warm-up included. Each figure is for a stretch; all
// stretches have the same length.
type Course struct {
	// Begin of the first stretch, relative to the window's start; negative in the warm-up.
	BeginNS   int64   `json:"begin_ns"`
	StretchNS int64   `json:"stretch_ns"` // length of each stretch
	Calls     []int64 `json:"calls"`      // number of calls that ended in each stretch
	// P99 of the service times in each stretch, within 7 %; null for fewer than 100 calls
	P99NS []*int64 `json:"p99_ns"`
	// Failed counts the calls that failed. Older records lack Failed and the response times.
	Failed []int64 `json:"failed,omitempty"`
	// Response times count from the intended send; in a closed loop without a limit they equal the
	// service times. They are accurate to 7 %. P50 is null for fewer than 10 calls, P99 for fewer
	// than 100, the maximum for none.
	ResponseP50NS []*int64 `json:"response_p50_ns,omitempty"`
	ResponseP99NS []*int64 `json:"response_p99_ns,omitempty"`
	ResponseMaxNS []*int64 `json:"response_max_ns,omitempty"`
	// CPU time of the client and the server; absent if it was not sampled.
	ClientCPUNS []int64 `json:"client_cpu_ns,omitempty"`
	ServerCPUNS []int64 `json:"server_cpu_ns,omitempty"`
}

// CourseCalls is the least number of calls in a stretch for a P99. CourseMedianCalls is the least
// number for a P50.
const (
	CourseCalls       = 100
	CourseMedianCalls = 10
)
