package rpccall

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// A Context is the context of one call on a server. The call embeds the Context, which saves an
// allocation. The Context makes its channel, timer and list only when it needs them.
type Context struct {
	call Call

	mu       sync.Mutex
	done     chan struct{}
	err      error
	deadline time.Time
	timer    *time.Timer
	after    []*func()
}

var _ context.Context = (*Context)(nil)

// A Call embeds a Context.
type Call interface {
	// ContextEnded is called after Cancel or the timer has ended the context, perhaps more than
	// once. It wakes the goroutines that wait for the call.
	ContextEnded()
	// ContextValue returns the context's value for a key.
	ContextValue(key any) any
}

// Init prepares a zero Context, which has no deadline.
func (c *Context) Init(call Call) { c.call = call }

// SetDeadline sets the deadline. Call it before other goroutines have the context.
func (c *Context) SetDeadline(deadline time.Time) { c.deadline = deadline }

// closedChan is returned by Done if the context has ended before Done is called first.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline returns the deadline that the client sent.
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done returns a channel that is closed when the call ends, is cancelled or passes its deadline.
func (c *Context) Done() <-chan struct{} {
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
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	return c.err
}

// AfterFunc calls f on a new goroutine when the context ends. Package context calls AfterFunc. So
// package context needs no goroutine for each derived context.
func (c *Context) AfterFunc(f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	entry := &f
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

// StartTimer makes the context end at its deadline even if no goroutine waits for the context.
func (c *Context) StartTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startTimer()
}

// StartTimerWith calls f at the deadline. f must call Cancel.
func (c *Context) StartTimerWith(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(time.Until(c.deadline), f)
}

// startTimer starts a timer for the deadline. Err needs no timer, because Err reads the clock.
func (c *Context) startTimer() {
	if c.timer == nil && !c.deadline.IsZero() && c.err == nil {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.Cancel(context.DeadlineExceeded) })
	}
}

func (c *Context) expire() {
	if c.err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.end(context.DeadlineExceeded)
	}
}

// Cancel ends the context with an error, and calls ContextEnded.
func (c *Context) Cancel(err error) {
	c.mu.Lock()
	c.end(err)
	c.mu.Unlock()
	c.call.ContextEnded()
}

func (c *Context) end(err error) {
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
	for _, f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// Value returns the call's value for a key. So the call needs no context.WithValue for each value.
func (c *Context) Value(key any) any { return c.call.ContextValue(key) }

// An EndingContext holds a context that ends with a client's call. The context is made on demand,
// because most callers need none. The methods may be called concurrently.
type EndingContext struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
	early  bool // the call has ended before its parent's end
}

// Get returns the context: parent with a peer.
func (e *EndingContext) Get(parent context.Context, p *peer.Peer) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		if e.early {
			parent = context.WithoutCancel(parent) // whose deadline may have passed since
		}
		e.ctx, e.cancel = context.WithCancel(peer.NewContext(parent, p))
		if e.early {
			e.cancel()
		}
	}
	return e.ctx
}

// End ends the context of a call, whose program's context is parent.
func (e *EndingContext) End(parent context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.early = parent.Err() == nil
	if e.cancel != nil {
		e.cancel()
	}
}

// Keys holds the keys of grpc-go's context values, whose types are unexported.
var Keys = struct{ Incoming, Peer, TransportStream any }{
	KeyOf(func(ctx context.Context) { metadata.FromIncomingContext(ctx) }),
	KeyOf(func(ctx context.Context) { peer.FromContext(ctx) }),
	KeyOf(func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) }),
}

// KeyOf calls lookup with a context of its own. It returns the key that lookup asks for.
func KeyOf(lookup func(context.Context)) (key any) {
	lookup(keyRecorder{context.Background(), &key})
	return key
}

type keyRecorder struct {
	context.Context
	key *any
}

func (s keyRecorder) Value(key any) any {
	*s.key = key
	return nil
}
