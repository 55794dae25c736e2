package service

import (
	"context"
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

// UserAgent is the user agent of requests unless the user names another.
const UserAgent = "wirelab"

// Caller makes one call after another for one client of the load, in its goroutine.
type Caller struct {
	client  Client
	source  Source
	grpc    bool
	streams bool
	answer  Answer
	got     bool // there is an answer to the last call
	// patience holds the wait before the next call to a service that does not listen any more.
	patience time.Duration
	name     string // the last request's name

	expected *Expectations // nil: none
	follower Follower      // nil: no request depends on an answer
	look     *expect.Look
	random   *rand.Rand
	uses     expect.Uses // the parts of the call's answer that are used
	began    int64       // the call's start, if a condition uses its latency
	tookNS   int64
	cost     record.Checking // the cost of checking answers
}

// NewCaller makes a caller.
func (d *Definition) NewCaller(client Client, source Source) *Caller {
	c := &Caller{client: client, source: source, grpc: d.Wire.IsGRPC()}
	c.streams = d.Wire == GRPC && len(d.Requests) > 0 && d.Requests[0].Stream.Server
	c.follower, _ = source.(Follower)
	return c
}

// Call makes the next call. Unless a condition of the user names the status, it must be below 400,
// or OK.
func (c *Caller) Call(ctx context.Context) error {
	c.got = false
	request, err := c.source.Next()
	if request != nil {
		c.name = request.Name
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
	if err := c.client.Call(ctx, request, &c.answer); err != nil {
		before := c.patience
		if c.patience = 0; failure.Of(err) == failure.Refused {
			c.patience = min(max(2*before, leastPatience), mostPatience)
		}
		return err
	}
	c.patience, c.got = 0, true
	if c.uses.Latency {
		c.tookNS = clock.Now() - c.began
	}
	usual := c.grpc && c.answer.Status == int(codes.OK) || !c.grpc && c.answer.Status < http.StatusBadRequest
	if usual || c.uses.Status { // or the user says which status is right
		return nil
	}
	return &StatusError{GRPC: c.grpc, Status: c.answer.Status, Message: c.answer.Message}
}

// Check looks at the last call's answer. An [*expect.Unmet] says what is wrong with it.
func (c *Caller) Check() error {
	e := c.expected
	if e == nil || len(e.light)+len(e.heavy) == 0 && c.follower == nil {
		return nil
	}
	begin := clock.Now()
	seen := c.answer.Seen(time.Duration(c.tookNS))
	c.look.At(seen)
	err := c.all(e.light)
	whole := e.share >= 1 || len(e.heavy) == 0 || c.random.Float64() < e.share
	if err == nil && whole && len(e.heavy) > 0 {
		if seen, err = e.Readable(seen); err == nil {
			c.look.At(seen)
			err = c.all(e.heavy)
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

func (c *Caller) all(conditions []*expect.Condition) error {
	for _, one := range conditions {
		if err := one.Check(c.look); err != nil {
			return err
		}
	}
	return nil
}

// Name returns the name of the last request; empty if requests have none.
func (c *Caller) Name() string { return c.name }

// Think returns how long the client waits before the next request: the user's think time, or a
// pause because nothing listens at the address any more.
func (c *Caller) Think() time.Duration {
	if c.follower == nil {
		return c.patience
	}
	return max(c.patience, c.follower.Think())
}

// The bounds of a client's wait if no server listens. The wait grows, so that failing calls cost
// little and do not flood a service that comes back.
const (
	leastPatience = 10 * time.Millisecond
	mostPatience  = time.Second
)

// Streams reports whether each answer is a stream of messages whose times are known.
func (c *Caller) Streams() bool { return c.streams }

// MessageTimes returns how long each message of the last call's answer took.
func (c *Caller) MessageTimes() []time.Duration {
	if !c.got {
		return nil
	}
	return c.answer.Times
}

// Status returns the status of the last call's answer, and false if there was none.
func (c *Caller) Status() (status int, answered bool) { return c.answer.Status, c.got }

// AnswerBytes returns the size of the last call's answer, as Answer.Bytes.
func (c *Caller) AnswerBytes() int64 { return c.answer.Bytes }

// A StatusError is an answer whose status says that the call failed.
type StatusError struct {
	GRPC    bool
	Status  int
	Message string
}

// Error implements error.
func (e *StatusError) Error() string { return "the server answered " + e.Said() }

// Said returns the status in words.
func (e *StatusError) Said() string {
	switch {
	case !e.GRPC:
		return strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	case e.Message == "":
		return codes.Code(e.Status).String()
	default:
		return fmt.Sprintf("%s: %s", codes.Code(e.Status), e.Message)
	}
}

// Code names the status in records.
func (e *StatusError) Code() string {
	if e.GRPC {
		return codes.Code(e.Status).String()
	}
	return strconv.Itoa(e.Status)
}

// Expectations holds the conditions of a right answer. All callers share them.
type Expectations struct {
	kind expect.Kind
	uses expect.Uses
	// light lists the conditions that need no body, heavy the conditions that need one. The
	// heavy ones are checked for a share of the answers.
	light, heavy []*expect.Condition
	share        float64
	decode       func(message []byte) (json []byte, err error) // nil: bodies need no decoding
}

// Kind returns the kind of the wire's answers.
func (w Wire) Kind() expect.Kind {
	if w.IsGRPC() {
		return expect.GRPC
	}
	return expect.HTTP
}

// Expectations compiles the definition's conditions.
func (d *Definition) Expectations() (*Expectations, error) {
	e := &Expectations{kind: d.Wire.Kind(), share: d.ExpectSample}
	if e.share == 0 {
		e.share = 1
	}
	for _, text := range d.Expect {
		c, err := expect.Parse(text, e.kind)
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

// Readable converts an answer for conditions: a gRPC message becomes JSON.
func (e *Expectations) Readable(seen expect.Answer) (expect.Answer, error) {
	if e.decode == nil || seen.Status != int(codes.OK) {
		return seen, nil
	}
	var err error
	if seen.Body, err = e.decode(seen.Body); err != nil {
		err = fmt.Errorf("read the answer's message: %w", err)
	}
	return seen, err
}

// Keep reports whether a condition uses headers or bodies of answers.
func (e *Expectations) Keep() bool { return e.uses.Header || e.uses.Body }

// Expect makes the caller check its answers. The seed determines the sample.
func (c *Caller) Expect(e *Expectations, seed uint64) {
	c.expected = e
	c.look = expect.NewLook(e.kind)
	c.random = rand.New(rand.NewPCG(seed, 0))
}

// Checking returns the cost of checking the answers; nil if nobody asked for it.
func (c *Caller) Checking() *record.Checking {
	if c.cost.Answers == 0 {
		return nil
	}
	return &c.cost
}
