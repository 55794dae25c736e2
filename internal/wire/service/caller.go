package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/schema"
)

// UserAgent is the user agent of requests, unless the user sets another.
const UserAgent = "wirelab"

// Caller makes one call after another for one client of the load. One goroutine uses it.
type Caller struct {
	client  Client
	source  Source
	wire    expect.Kind // of requests that do not say that they use gRPC
	kind    expect.Kind // of the last request
	streams bool
	answer  Answer
	got     bool // whether the last call got an answer
	retry   int  // how often a call without an answer is sent again
	resent  int  // how often the last call was sent again
	// patience is the wait before the next call to a service that no longer listens.
	patience time.Duration
	name     string // the last request's name
	body     int64  // length of the last request's body or messages
	sent     int64  // requests that were sent so far, each time that they were sent

	expected *Expectations // nil means no conditions
	follower Follower      // nil means that no request depends on an answer
	look     *expect.Evaluator
	random   *rand.Rand
	uses     expect.Uses // the parts of the current answer that conditions use
	began    int64       // the call's start; set only if a condition uses the latency
	tookNS   int64
	cost     record.Checking // the cost of checking answers
}

// NewCaller makes a caller.
func (d *Definition) NewCaller(client Client, source Source) *Caller {
	c := &Caller{client: client, source: source, wire: d.Wire.Kind(), retry: d.Retry}
	if h := d.Holding; h != nil {
		c.streams = h.Exchange == Receive || h.SentAt != ""
	} else {
		c.streams = d.Wire == GRPC && len(d.Requests) > 0 && d.Requests[0].Stream.Server
	}
	c.follower, _ = source.(Follower)
	return c
}

// Call makes the next call. If no condition of the user mentions the status, an HTTP status must
// be below 400 and a gRPC status must be OK.
func (c *Caller) Call(ctx context.Context) error {
	c.got, c.resent = false, 0
	request, err := c.source.Next()
	if request != nil {
		c.name, c.kind = request.Name, c.wire
		if request.GRPC {
			c.kind = expect.GRPC
		}
	}
	if err != nil {
		return err
	}
	c.uses = expect.Uses{}
	if c.expected != nil {
		c.uses = c.expected.uses
	}
	if c.follower != nil {
		c.uses = c.uses.Plus(c.follower.Uses())
	}
	if c.uses.Latency {
		c.began = clock.Now()
	}
	c.body = int64(len(request.Body))
	for _, message := range request.Messages {
		c.body += int64(len(message))
	}
	c.sent++
	err = c.client.Call(ctx, request, &c.answer)
	for err != nil && c.resent < c.retry && mayRepeat(ctx, err) {
		c.resent++
		c.sent++
		err = c.client.Call(ctx, request, &c.answer)
	}
	if err != nil {
		before := c.patience
		if c.patience = 0; failure.Of(err) == failure.Refused {
			c.patience = min(max(2*before, minRetryWait), maxRetryWait)
		}
		return err
	}
	c.patience, c.got = 0, true
	if c.uses.Latency {
		c.tookNS = clock.Now() - c.began
	}
	if IsUsual(c.kind, c.answer.Status) || c.uses.Status { // unless the user's conditions decide which status is right
		return nil
	}
	return c.LastStatus()
}

// mayRepeat reports whether --retry covers the error of a call: the connection ended, or the server
// refused the call. A call that was too slow is not repeated, and neither is one for which no
// connection could be opened: nothing was sent.
func mayRepeat(ctx context.Context, err error) bool {
	switch failure.Of(err) {
	case failure.Reset, failure.Closed, failure.IdleClosed, failure.StreamRefused, failure.GoAway:
		return ctx.Err() == nil
	}
	return false
}

// Sent returns how many requests were sent so far. A request counts each time that it was sent.
func (c *Caller) Sent() int64 { return c.sent }

// Begin makes a follower's calls before the load, such as a login. Sent counts them, too.
func (c *Caller) Begin(ctx context.Context) error {
	if c.follower == nil {
		return nil
	}
	return c.follower.Begin(ctx, countingClient{c.client, &c.sent})
}

type countingClient struct {
	Client
	calls *int64
}

// Call implements Client.
func (c countingClient) Call(ctx context.Context, request *Request, answer *Answer) error {
	*c.calls++
	return c.Client.Call(ctx, request, answer)
}

// AddBytes adds the bytes of the last call, if it got an answer.
func (c *Caller) AddBytes(to *record.CallBytes) {
	if !c.got {
		return
	}
	to.Calls++
	to.SentBodyBytes += c.body
	to.ReceivedBodyBytes += c.answer.Bytes
	if c.answer.SentHeaderBytes > 0 {
		to.HeaderCalls++
		to.SentHeaderBytes += c.answer.SentHeaderBytes
		to.ReceivedHeaderBytes += c.answer.ReceivedHeaderBytes
	}
}

// Resent returns how often the last call was sent again.
func (c *Caller) Resent() int { return c.resent }

// IsUsual reports whether a status means success: below 400 in HTTP, OK in gRPC.
func IsUsual(kind expect.Kind, status int) bool {
	if kind == expect.GRPC {
		return status == int(codes.OK)
	}
	return status < http.StatusBadRequest
}

// Check checks the last call's answer. It returns an [*expect.UnmetError] if a condition is not met.
func (c *Caller) Check() error {
	e := c.expected
	if e == nil || len(e.light)+len(e.heavy) == 0 && c.follower == nil {
		return nil
	}
	begin := clock.Now()
	seen := c.answer.ForConditions(c.kind, time.Duration(c.tookNS))
	var err error
	if c.follower != nil {
		seen, err = c.follower.DecodeAnswer(seen)
	}
	c.look.SetAnswer(seen)
	if err == nil {
		err = c.callAll(e.light)
	}
	whole := e.share >= 1 || len(e.heavy) == 0 || c.random.Float64() < e.share
	if err == nil && whole && len(e.heavy) > 0 {
		if seen, err = e.DecodeAnswer(seen); err == nil {
			c.look.SetAnswer(seen)
			err = c.callAll(e.heavy)
		}
	}
	if err == nil && c.follower != nil {
		err = c.follower.Follow(c.look)
	}
	c.cost.Answers++
	if whole {
		c.cost.Whole++
	}
	c.cost.TookNS += clock.Now() - begin
	return err
}

func (c *Caller) callAll(conditions []*expect.Condition) error {
	for _, one := range conditions {
		if err := one.Check(c.look); err != nil {
			return err
		}
	}
	return nil
}

// Hold opens the caller's stream, if its client holds streams.
func (c *Caller) Hold(ctx context.Context, number int) error {
	holder, is := c.client.(Holder)
	if !is {
		return nil
	}
	var request *Request
	if number%holder.CallersPerStream() == 0 {
		var err error
		if request, err = c.source.Next(); err != nil {
			return err
		}
	}
	return holder.Hold(ctx, number, request, &c.answer)
}

// Unfinished reports whether an error means that a call has no result, and must not be counted.
func (c *Caller) Unfinished(err error) bool { return errors.Is(err, ErrUnfinished) }

// Name returns the name of the last request, or "" if requests have no names.
func (c *Caller) Name() string { return c.name }

// Think returns the wait before the next request. The wait is the user's think time, or a pause
// because the service no longer listens.
func (c *Caller) Think() time.Duration {
	if c.follower == nil {
		return c.patience
	}
	return max(c.patience, c.follower.Think())
}

// These limits bound a client's wait while no server listens. The wait grows, so that failing
// calls cost little, and a restarting service is not flooded.
const (
	minRetryWait = 10 * time.Millisecond
	maxRetryWait = time.Second
)

// Streams reports whether each answer is a stream of messages with known times.
func (c *Caller) Streams() bool { return c.streams }

// MessageTimes returns the latency of each message in the last call's answer.
func (c *Caller) MessageTimes() []time.Duration {
	if !c.got {
		return nil
	}
	return c.answer.Times
}

// LastStatus returns the last answer's status as an error, also if the status means success.
func (c *Caller) LastStatus() *StatusError {
	return &StatusError{GRPC: c.kind == expect.GRPC, Status: c.answer.Status, Message: c.answer.Message}
}

// Status returns the status of the last call's answer. answered is false if there was no answer.
func (c *Caller) Status() (status int, answered bool) { return c.answer.Status, c.got }

// Address returns the address that the last call went to, or "" if there is only one.
func (c *Caller) Address() string { return c.answer.Address }

// AnswerBytes returns the size of the last call's answer: see Answer.Bytes.
func (c *Caller) AnswerBytes() int64 { return c.answer.Bytes }

// A StatusError reports an answer whose status means that the call failed.
type StatusError struct {
	GRPC    bool
	Status  int
	Message string
}

// Error implements error.
func (e *StatusError) Error() string { return "the server answered " + e.Describe() }

// Describe returns the status as text.
func (e *StatusError) Describe() string {
	switch {
	case !e.GRPC:
		return strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	case e.Message == "":
		return codes.Code(e.Status).String()
	default:
		return fmt.Sprintf("%s: %s", codes.Code(e.Status), e.Message)
	}
}

// Code returns the name of the status in records.
func (e *StatusError) Code() string {
	if e.GRPC {
		return codes.Code(e.Status).String()
	}
	return strconv.Itoa(e.Status)
}

// Expectations holds the conditions that a right answer meets. All callers share them.
type Expectations struct {
	uses expect.Uses
	// light lists conditions that do not use the body; heavy lists conditions that do. Heavy
	// conditions are checked for only a share of the answers.
	light, heavy []*expect.Condition
	share        float64
	decode       func(message []byte) (json []byte, err error) // nil if bodies need no decoding
}

// Kind returns the kind of answer that the wire's calls get.
func (w Wire) Kind() expect.Kind {
	if w.IsGRPC() {
		return expect.GRPC
	}
	return expect.HTTP
}

// Expectations compiles the definition's conditions.
func (d *Definition) Expectations() (*Expectations, error) {
	e := &Expectations{share: d.ExpectSample}
	if e.share == 0 {
		e.share = 1
	}
	for _, text := range d.Expect {
		c, err := expect.Parse(text, d.Wire.Kind())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		e.uses = e.uses.Plus(c.Uses())
		if c.Uses().Body {
			e.heavy = append(e.heavy, c)
		} else {
			e.light = append(e.light, c)
		}
	}
	if e.uses.Body && len(d.Descriptors) > 0 {
		method, err := schema.Load(d.Descriptors, d.Requests[0].Path)
		if err != nil {
			return nil, err
		}
		e.decode = method.Decode
	}
	return e, nil
}

// DecodeAnswer converts an answer for conditions: a gRPC message becomes JSON.
func (e *Expectations) DecodeAnswer(seen expect.Answer) (expect.Answer, error) {
	if e.decode == nil || seen.Status != int(codes.OK) {
		return seen, nil
	}
	var err error
	if seen.Body, err = e.decode(seen.Body); err != nil {
		err = fmt.Errorf("convert the answer's message into JSON: %w", err)
	}
	return seen, err
}

// UseContent reports whether a condition uses headers or bodies of answers.
func (e *Expectations) UseContent() bool { return e.uses.Header || e.uses.Body }

// CheckAnswers makes the caller check its answers. The seed determines which bodies are checked.
func (c *Caller) CheckAnswers(e *Expectations, seed uint64) {
	c.expected = e
	c.look = expect.NewEvaluator()
	c.random = rand.New(rand.NewPCG(seed, 0))
}

// CheckingCost returns the cost of checking the answers, or nil if answers are not checked.
func (c *Caller) CheckingCost() *record.Checking {
	if c.cost.Answers == 0 {
		return nil
	}
	return &c.cost
}
