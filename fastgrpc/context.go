package fastgrpc

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// callContext is the context of one call on a server. It is part of the call's single
// allocation; its channel, timer and list are created on demand.
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

// closedChan is returned by Done if its first call comes after the end.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline returns the deadline that the client sent.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done returns a channel that is closed when the call ends, is cancelled or passes its
// deadline.
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

// Err returns nil until Done is closed.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	return c.err
}

// AfterFunc lets package context derive contexts without a goroutine for each.
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
		i := slices.Index(c.after, entry)
		if i >= 0 {
			c.after = slices.Delete(c.after, i, i+1)
		}
		return i >= 0
	}
}

// startTimer starts a timer for the deadline. Err needs none: it compares the clock.
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

// cancel ends the context and wakes the stream's sender and receiver.
func (c *callContext) cancel(err error) {
	c.mu.Lock()
	c.end(err)
	c.mu.Unlock()
	c.stream.wakeAll()
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

// Value returns the values that grpc-go's packages look up, without the cost of a
// context.WithValue for each.
func (c *callContext) Value(key any) any {
	switch key {
	case contextKeys.incoming:
		return c.stream.incoming()
	case contextKeys.peer:
		return c.stream.conn.peer
	case contextKeys.transportStream:
		return c.stream
	}
	if isConnectionKey(key) {
		return c.stream.conn.NetConn()
	}
	return c.stream.conn.ctx.Value(key)
}

// isConnectionKey tells the key by which grpc-go's authz and RBAC look up the connection,
// for its address. No exported function looks it up, so it is known by its name.
func isConnectionKey(key any) bool {
	t := reflect.TypeOf(key)
	return t != nil && t.Kind() == reflect.Struct && t.Name() == "connectionKey" &&
		t.PkgPath() == "google.golang.org/grpc/internal/transport"
}

// contextKeys are the keys of grpc-go's context values. Their types are unexported, but
// Value sees each key that is looked up, so findContextKeys looks them all up once.
var contextKeys = findContextKeys()

type grpcContextKeys struct{ incoming, peer, transportStream any }

func findContextKeys() grpcContextKeys {
	var keys grpcContextKeys
	record := func(key *any, lookup func(context.Context)) {
		lookup(keyRecorder{context.Background(), key})
	}
	record(&keys.incoming, func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	record(&keys.peer, func(ctx context.Context) { peer.FromContext(ctx) })
	record(&keys.transportStream, func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
	return keys
}

type keyRecorder struct {
	context.Context
	key *any
}

func (s keyRecorder) Value(key any) any {
	*s.key = key
	return nil
}
