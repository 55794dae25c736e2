package fastgrpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// callContext is the context of one call on a server. It is part of the call's one
// allocation: its channel, timer and list come into being when somebody asks.
type callContext struct {
	stream *serverStream

	mu       sync.Mutex
	done     chan struct{}
	err      error
	deadline time.Time
	timer    *time.Timer
	after    []*afterFunc
}

var _ context.Context = (*callContext)(nil)

type afterFunc struct{ f func() }

// closedChan is what Done returns when nobody asked before the end.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline returns the deadline that the client sent.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done is closed when the call ends, is cancelled or passes its deadline.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if c.done == nil {
		if c.err != nil {
			return closedChan
		}
		c.done = make(chan struct{})
		c.startTimer()
	}
	return c.done
}

// Err is nil until Done is closed.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	return c.err
}

// AfterFunc lets package context attach children without a goroutine each.
func (c *callContext) AfterFunc(f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	entry := &afterFunc{f}
	c.after = append(c.after, entry)
	c.startTimer()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, e := range c.after {
			if e == entry {
				c.after = append(c.after[:i], c.after[i+1:]...)
				return true
			}
		}
		return false
	}
}

// startTimer makes the deadline act by itself; without it Err looks at the clock.
func (c *callContext) startTimer() {
	if c.timer == nil && !c.deadline.IsZero() && c.err == nil {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.cancel(context.DeadlineExceeded) })
	}
}

func (c *callContext) expire() {
	if c.err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.end(context.DeadlineExceeded)
	}
}

// cancel ends the context and wakes whoever waits on the stream.
func (c *callContext) cancel(err error) {
	c.mu.Lock()
	c.end(err)
	c.mu.Unlock()
	c.stream.wakeBoth()
}

func (c *callContext) end(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, e := range c.after {
		go e.f()
	}
	c.after = nil
}

// Value answers for the three values that grpc-go's packages look up, without a
// context.WithValue for each.
func (c *callContext) Value(key any) any {
	switch key {
	case contextKeys.incoming:
		return c.stream.incoming()
	case contextKeys.peer:
		return c.stream.conn.peer
	case contextKeys.transportStream:
		return (*transportStream)(c.stream)
	}
	return c.stream.conn.ctx.Value(key)
}

// contextKeys are the keys under which grpc-go's packages keep their values. The
// keys' types are theirs alone, but a context sees the keys it is asked for.
var contextKeys = learnContextKeys()

type grpcContextKeys struct{ incoming, peer, transportStream any }

func learnContextKeys() grpcContextKeys {
	var keys grpcContextKeys
	ask := func(key *any, lookup func(context.Context)) {
		lookup(keySpy{context.Background(), key})
	}
	ask(&keys.incoming, func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	ask(&keys.peer, func(ctx context.Context) { peer.FromContext(ctx) })
	ask(&keys.transportStream, func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
	return keys
}

type keySpy struct {
	context.Context
	key *any
}

func (s keySpy) Value(key any) any {
	*s.key = key
	return nil
}
