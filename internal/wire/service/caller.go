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

	"wirelab.dev/internal/base/failure"
)

// UserAgent is the user agent of requests for which the user names no other.
const UserAgent = "wirelab"

// Caller makes one call after another for one client of the load. Only that client's
// goroutine uses it.
type Caller struct {
	client  Client
	source  Source
	grpc    bool
	streams bool
	answer  Answer
	got     bool // there is an answer to the last call
	// patience holds the wait before the next call to a service that does not listen any more.
	patience time.Duration
	checker  checker
	name     string // of the last request
}

// Source makes the requests of one client.
type Source interface {
	// Next returns the next request. It may use the memory of the one before.
	Next() (*Request, error)
}

// NewCaller makes a caller.
func (d *Definition) NewCaller(client Client, source Source) *Caller {
	c := &Caller{client: client, source: source, grpc: d.Wire.IsGRPC()}
	c.streams = d.Wire == GRPC && len(d.Requests) > 0 && d.Requests[0].Stream.Server
	c.checker.follower, _ = source.(Follower)
	return c
}

// Call makes the next call.
func (c *Caller) Call(ctx context.Context) error {
	c.got = false
	request, err := c.source.Next()
	if request != nil {
		c.name = request.Name
	}
	if err != nil {
		return err
	}
	c.checker.begin()
	if err := c.client.Call(ctx, request, &c.answer); err != nil {
		c.patience = nextPatience(c.patience, err)
		return err
	}
	c.patience = 0
	c.checker.end()
	c.got = true
	if c.checker.replacesUsual() {
		return nil
	}
	return c.usual()
}

// Check looks at the last call's answer. An [*expect.Unmet] says what is wrong with it.
func (c *Caller) Check() error { return c.checker.check(&c.answer) }

// Name returns the name of the last request; empty if requests have none.
func (c *Caller) Name() string { return c.name }

// Think returns how long the client waits before the next request: as a user would, or because
// nothing listens there any more.
func (c *Caller) Think() time.Duration {
	if c.checker.follower == nil {
		return c.patience
	}
	return max(c.patience, c.checker.follower.Think())
}

// The bounds of a client's wait if no server listens. The wait grows each time, so that calls do
// not flood a service that comes back, and a service that does not come back costs nothing.
const (
	leastPatience = 10 * time.Millisecond
	mostPatience  = time.Second
)

func nextPatience(before time.Duration, err error) time.Duration {
	if failure.Of(err) != failure.Refused {
		return 0
	}
	return min(max(2*before, leastPatience), mostPatience)
}

// Streams reports whether answers have any number of messages, whose times are known.
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

// usual checks an answer for which the user has no condition: a status below 400, or OK, is right.
func (c *Caller) usual() error {
	if c.grpc && c.answer.Status == int(codes.OK) || !c.grpc && c.answer.Status < http.StatusBadRequest {
		return nil
	}
	return &StatusError{GRPC: c.grpc, Status: c.answer.Status, Message: c.answer.Message}
}

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

// Fixed returns the source of one client's requests where all are known before.
func (d *Definition) Fixed(client int, seed uint64) Source {
	f := &fixed{requests: d.Requests, next: client % len(d.Requests)}
	if d.Random && len(d.Requests) > 1 {
		f.random = rand.New(rand.NewPCG(seed, uint64(client)))
	}
	return f
}

type fixed struct {
	requests []Request
	next     int
	random   *rand.Rand // nil: in turn
}

func (f *fixed) Next() (*Request, error) {
	request := &f.requests[f.next]
	switch {
	case f.random != nil:
		f.next = f.random.IntN(len(f.requests))
	case len(f.requests) > 1:
		f.next = (f.next + 1) % len(f.requests)
	}
	return request, nil
}
