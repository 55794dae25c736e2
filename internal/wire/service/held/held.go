// Package held carries messages over streams that stay open: gRPC streams, WebSockets, and
// server-sent events. A call is one message.
//
//		Definition.Holding ── Open ──> Client ── Hold, per caller ──> stream ── Call: one message
//		                                                                ^   │ send
//		               pipe: gRPC, WebSocket or server-sent events ─────┘<──┘
//
//	 1. Hold opens a stream. One goroutine then owns it: it reads every message, and gives each to
//	    the caller that waits for it. So pings are answered, and an end is seen at once.
//	 2. A stream that ends is opened again by the same goroutine, at once, or after a growing wait if
//	    it brought nothing. Callers wait meanwhile, until an attempt fails.
//	 3. Answers are matched to messages in order, or by an expression over both.
//
// Memory is bounded: a stream keeps one message that no caller has taken yet, of at most
// maxMessageBytes. While nobody takes it, the stream is not read, and the network holds the server
// back.
//
// Terms:
//
//	exchange  what a call is: answer, receive or send
//	pipe      one connection's worth of a stream, from its opening to its end
//
// This package must not know when calls are made, nor that they are measured.
package held

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

var _ service.Holder = (*Client)(nil)

// A Client holds the streams of all callers.
type Client struct {
	*setting
	carrier service.Client // what carries the streams; nil if each stream dials for itself
	end     context.CancelFunc
	running sync.WaitGroup // the streams' goroutines

	guard   sync.Mutex
	streams map[int]*stream
	alone   atomic.Int64 // streams of callers that did not call Hold
}

// Open makes a client for a plan with a Holding. Its connections are open when it returns, but no
// stream is.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	if err := Check(plan.Definition); err != nil {
		return nil, err
	}
	if plan.Lifecycle != conn.Kept {
		return nil, errors.New("held streams stay on their connections, but the plan asks for one connection per call: leave out --conn")
	}
	set, err := newSetting(plan)
	if err != nil {
		return nil, err
	}
	c := &Client{setting: set, streams: map[int]*stream{}}
	if c.open, c.carrier, err = newOpener(ctx, plan); err != nil {
		return nil, err
	}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	return c, nil
}

// CallersPerStream returns how many neighbouring callers share a stream.
func (c *Client) CallersPerStream() int { return c.Holding.InFlight }

// OwnConnections returns true: each stream counts as a connection of its own.
func (c *Client) OwnConnections() bool { return true }

// Hold gives a caller its stream. The first caller of a stream opens it with the request.
func (c *Client) Hold(ctx context.Context, caller int, request *service.Request, answer *service.Answer) error {
	number := caller / c.Holding.InFlight
	c.guard.Lock()
	s := c.streams[number]
	if s == nil {
		s = newStream(c.setting)
		c.streams[number] = s
	}
	c.guard.Unlock()
	answer.CallerState = newCaller(s)
	if request == nil {
		return nil
	}
	if err := c.begin(ctx, s, request); err != nil {
		c.guard.Lock()
		delete(c.streams, number) // another client may open it
		c.guard.Unlock()
		return err
	}
	return nil
}

// begin opens a stream, and starts the goroutine that owns it.
func (c *Client) begin(ctx context.Context, s *stream, request *service.Request) error {
	p, err := s.first(ctx, request)
	if err != nil {
		return err
	}
	c.running.Go(func() { s.run(p) }) // ends when the client is closed
	return nil
}

// Call makes one exchange on the caller's stream. A caller without a stream opens one first.
func (c *Client) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	own, _ := answer.CallerState.(*caller)
	if own == nil {
		alone := -int(c.alone.Add(1)) * c.Holding.InFlight
		if err := c.Hold(ctx, alone, request, answer); err != nil {
			return err
		}
		own = answer.CallerState.(*caller)
	}
	*answer = service.Answer{Body: answer.Body[:0], Times: answer.Times[:0], CallerState: own}
	return own.exchange(ctx, request, answer)
}

// Streams returns the counts of all streams so far.
func (c *Client) Streams() *record.Streams {
	c.guard.Lock()
	defer c.guard.Unlock()
	all := record.Streams{Exchange: string(c.Holding.Exchange), CallersPerStream: int64(c.Holding.InFlight), Dated: c.sentAt != nil}
	for _, s := range c.streams {
		all = all.Plus(s.counts())
	}
	return &all
}

// closeTime bounds the wait for servers that let a stream end slowly.
const closeTime = 500 * time.Millisecond

// Close ends all streams in the way of their protocol, and then all connections.
func (c *Client) Close() error {
	c.guard.Lock()
	for _, s := range c.streams {
		c.running.Go(s.finish) // ends with its stream, or with c.end
	}
	c.guard.Unlock()
	late := time.AfterFunc(closeTime, c.end)
	defer late.Stop()
	c.running.Wait()
	c.end()
	if c.carrier != nil {
		return c.carrier.Close()
	}
	return nil
}

// Complete chooses the exchange of held streams if the user has not, and checks them. A definition
// without held streams is complete.
func Complete(d *service.Definition) error {
	if d.Holding == nil {
		return nil
	}
	d.Holding.SetDefault(d)
	return Check(d)
}

// Check returns an error if streams cannot be held as the definition says.
func Check(d *service.Definition) error {
	h := d.Holding
	grpc := d.Wire == service.GRPC
	var stream service.Stream
	if len(d.Requests) > 0 {
		stream = d.Requests[0].Stream
	}
	switch {
	case d.Wire == service.GRPCH3:
		return errors.New("held streams of gRPC go over HTTP/2: leave out --http 3")
	case h.Exchange != service.Answers && h.Exchange != service.Receive && h.Exchange != service.Send:
		return fmt.Errorf("--exchange: found %q: want answer, receive or send", h.Exchange)
	case grpc && stream == (service.Stream{}):
		return fmt.Errorf("--streams: %s is a unary method, which has no stream: leave out --streams, or name a streaming method", d.Label())
	case grpc && h.Exchange == service.Answers && stream != service.Stream{Client: true, Server: true}:
		return fmt.Errorf("--exchange answer: %s streams in one direction only: leave out --exchange", d.Label())
	case grpc && h.Exchange == service.Receive && !stream.Server:
		return fmt.Errorf("--exchange receive: the server of %s sends only one message: leave out --exchange", d.Label())
	case grpc && h.Exchange == service.Send && !stream.Client:
		return fmt.Errorf("--exchange send: each call of %s sends only one message: leave out --exchange", d.Label())
	case !grpc && d.Wire != service.WebSocket && h.Exchange != service.Receive:
		return fmt.Errorf("--exchange %s: a client only receives server-sent events: leave out --exchange", h.Exchange)
	case d.Wire == service.WebSocket && h.Exchange != service.Receive && len(d.Requests) > 0 && len(d.Requests[0].Body) == 0:
		return fmt.Errorf("--exchange %s: there is no message to send: give it with -d", h.Exchange)
	case h.InFlight < 1 || h.InFlight > maxInFlight:
		return fmt.Errorf("--inflight-per-stream: found %d: want 1 to %d", h.InFlight, maxInFlight)
	case h.OpenPerSecond < 0:
		return fmt.Errorf("--open-rate: found %v: want more than 0 streams per second", h.OpenPerSecond)
	case h.InFlight > 1 && h.Exchange != service.Answers:
		return fmt.Errorf("--inflight-per-stream: only an exchange of messages and answers has messages in flight; this one is %q: leave out --inflight-per-stream", h.Exchange)
	case h.Match != "" && h.Exchange != service.Answers:
		return fmt.Errorf("--match finds the answers to messages, but the exchange is %q: leave out --match", h.Exchange)
	case d.Trace != nil:
		return errors.New("--traceparent marks requests, but messages on a held stream have no header: leave it out")
	}
	_, err := parseFields(d)
	return err
}

// maxInFlight bounds the callers of a stream: their answers are looked for one by one.
const maxInFlight = 1024
