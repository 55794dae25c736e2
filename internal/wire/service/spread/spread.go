// Package spread divides the calls of a load among the addresses of a service. It opens one client
// per address, which any engine may be, and gives each call to one of them.
//
//	Definition.Addresses ── Open ──> Client ── Call ──> place ──> client of one address ──> engine
//
// Terms:
//
//	place   an address with its client
//	home    the place of a caller that keeps to one address
//	round   one call to each place, if a caller's calls go to all addresses
//
// A caller keeps to its home if it has connections of its own. If callers share connections that
// carry many calls at once, or if each call opens a connection, calls take turns: each round has an
// order of its own, because requests take turns, too, and else one address would get the slow ones. An address that
// accepts no connection gets no calls for a while: nothing was sent, so the call goes to another one.
//
// This package must not know when calls are sent, nor which protocol carries them.
package spread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// An Engine opens the client of one address.
type Engine func(context.Context, service.Plan) (service.Client, error)

// A Client divides calls among the places. Any goroutine may call its methods.
type Client struct {
	plan    service.Plan
	engine  Engine
	turns   bool // each call takes a turn; otherwise callers keep to their homes
	callers atomic.Int64
	table   atomic.Pointer[table]

	life    context.Context // ends with Close
	end     context.CancelFunc
	watcher *watcher       // nil if the addresses stay
	running sync.WaitGroup // the goroutines that open clients, and that look for changes

	guard   sync.Mutex       // guards the fields below
	all     []*place         // the places, and those that left but still have calls
	gone    []record.Address // addresses that left
	retired int              // their connections
}

// Open opens the clients of all addresses. It fails if none of them can be opened.
func Open(ctx context.Context, plan service.Plan, engine Engine) (service.Client, error) {
	own := plan.Holding != nil || plan.Lifecycle == conn.Kept && (plan.Connections >= plan.Callers || plan.Wire == service.HTTP1)
	if own && plan.Addresses.Policy == service.LeastCalls {
		return nil, errors.New("--addresses least chooses an address for each call, but here each client keeps its connection: write --addresses all, or let gRPC or --http 2 share connections with --conn shared")
	}
	if plan.Holding != nil && plan.Addresses.LookUp != nil {
		return nil, errors.New("--lookup-every: held streams stay at their addresses for the whole load: leave it out")
	}
	c := &Client{plan: plan, engine: engine, turns: !own}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, address := range plan.Addresses.All {
		c.all = append(c.all, &place{address: address, idle: make(chan struct{}, 1)})
	}
	if err := c.openAll(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if plan.Addresses.LookUp != nil {
		c.watcher = &watcher{Addresses: plan.Addresses, change: c.change}
		c.running.Go(func() { c.watcher.run(c.life) }) // ends with Close
	}
	if plan.Holding != nil {
		return &holder{Client: c, homes: map[int]*place{}}, nil
	}
	return c, nil
}

// homes returns the number of homes: one per connection, or per stream; 0 if calls take turns.
func (c *Client) homes() int {
	switch {
	case c.turns:
		return 0
	case c.plan.Holding != nil:
		return max(1, c.plan.Callers/c.plan.Holding.InFlight)
	}
	return max(1, c.plan.Connections)
}

// openAll opens the clients of all places that accept connections, and gives the callers of the others
// to them.
func (c *Client) openAll(ctx context.Context) error {
	for open := c.all; ; {
		t := arrange(open, nil, c.homes())
		errs := c.openInTime(ctx, t)
		failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
		if len(failed) == len(open) || ctx.Err() != nil {
			return fmt.Errorf("no address accepted a connection: %w", errors.Join(failed...))
		}
		if len(failed) == 0 || c.turns {
			c.table.Store(&table{places: slices.Clone(c.all), homes: t.homes})
			return nil
		}
		if err := c.closeAll(); err != nil {
			return err
		}
		var left []*place
		for i, p := range open {
			if p.client.Store(nil); errs[i] == nil {
				left = append(left, p)
			}
		}
		open = left
	}
}

// graceTime is the time in which an address must accept connections after the first one has.
const graceTime = 4 * time.Second

// openInTime opens the clients of a table's places. A place that takes much longer than the first one
// fails: its connections may wait for an answer that never comes.
func (c *Client) openInTime(ctx context.Context, t *table) []error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	begin, errs := time.Now(), make([]error, len(t.places))
	var first sync.Once
	_ = conn.OpenEach(ctx, len(t.places), func(_ context.Context, i int) error {
		p := t.places[i]
		if c.quota(t, p) == 0 {
			return nil
		}
		if p.client.Load() == nil {
			errs[i] = c.open(limited, t, p)
		}
		if errs[i] == nil {
			first.Do(func() { time.AfterFunc(max(graceTime, time.Since(begin)), cancel) })
		}
		return nil
	})
	return errs
}

// quota returns how many connections a place opens at first.
func (c *Client) quota(t *table, p *place) (connections int) {
	if c.turns {
		return max(1, c.plan.Connections/len(t.places))
	}
	for _, home := range t.homes {
		if home == p {
			connections++
		}
	}
	return connections
}

// open opens a place's client.
func (c *Client) open(ctx context.Context, t *table, p *place) error {
	definition, plan := *c.plan.Definition, c.plan
	definition.Address, definition.Addresses = p.address, nil
	plan.Definition, plan.Connections = &definition, c.quota(t, p)
	switch {
	case plan.Lifecycle != conn.Kept:
	case c.turns:
		plan.Callers = (c.plan.Callers + len(t.places) - 1) / len(t.places)
	default: // a caller may come whose own address accepts no connection
		plan.Callers = max(1, plan.Connections)
		plan.Spare = max(0, c.plan.Connections-plan.Connections)
	}
	client, err := c.engine(ctx, plan)
	if err != nil {
		if ctx.Err() != nil && c.life.Err() == nil {
			err = failure.WithClass(failure.ConnectTimeout, fmt.Errorf("no connection within %v after another address had accepted one", graceTime))
		}
		p.fail(err)
		return fmt.Errorf("%s: %w", p.address, err)
	}
	p.until.Store(0)
	p.opened.Store(int64(plan.Connections))
	p.client.Store(&client)
	return nil
}

// Call gives the call to a place. If the place accepts no connection, the next one gets the call.
func (c *Client) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	own, _ := answer.CallerState.(*caller)
	if own == nil {
		own = &caller{number: int(c.callers.Add(1) - 1), states: map[*place]any{}}
	}
	t, begin := c.table.Load(), clock.Now()
	own.follow(t)
	limit := int64(cmp.Or(request.Timeout, c.plan.Timeout))
	var err error
	for range t.places {
		p := c.choose(t, own)
		if !p.enter() {
			answer.CallerState = own
			return c.Call(ctx, request, answer) // the table is another one
		}
		if err = c.callAt(ctx, p, own, request, answer); err == nil || !neverSent(err) || ctx.Err() != nil {
			return err
		}
		if limit > 0 && clock.Now()-begin >= limit {
			return err
		}
	}
	if p := awaitOpen(ctx, t); p != nil && p.enter() {
		return c.callAt(ctx, p, own, request, answer)
	}
	return err
}

// choose returns the place of a caller's next call.
func (c *Client) choose(t *table, own *caller) *place {
	places, at := own.order(t)
	now, best := clock.Now(), places[at]
	for i := range places {
		p := places[(at+i)%len(places)]
		switch {
		case p.isDown(now):
		case c.plan.Addresses.Policy != service.LeastCalls:
			return p
		case best.isDown(now) || p.calls.Load() < best.calls.Load():
			best = p
		}
	}
	return best
}

// callAt makes a call at a place that the caller has entered. The engine keeps what it knows of the
// caller in its own state.
func (c *Client) callAt(ctx context.Context, p *place, own *caller, request *service.Request, answer *service.Answer) error {
	defer p.exit()
	client, err := c.clientOf(p)
	if err == nil {
		answer.CallerState = own.states[p]
		err = client.Call(ctx, request, answer)
		own.states[p] = answer.CallerState
	}
	answer.CallerState, answer.Address = own, p.address
	switch {
	case err == nil:
		p.pause.Store(0)
	case neverSent(err) && client != nil:
		p.fail(err)
	}
	return err
}

// clientOf returns a place's client. If the place has none, a goroutine opens it, because that may take
// long, and the call goes to another place.
func (c *Client) clientOf(p *place) (service.Client, error) {
	if client := p.client.Load(); client != nil {
		return *client, nil
	}
	ended := make(chan struct{})
	if p.opening.CompareAndSwap(nil, &ended) {
		c.running.Go(func() { // ends with the opening, or with c.life
			defer close(ended)
			defer p.opening.Store(nil)
			if p.client.Load() == nil {
				_ = c.open(c.life, c.table.Load(), p) // p keeps the error
			}
		})
	}
	return nil, &openError{p.lastError()}
}

// An openError says why a place has no client.
type openError struct{ error }

func (e *openError) Unwrap() error { return e.error }

// neverSent reports whether a call failed because no connection could be opened for it.
func neverSent(err error) bool {
	_, is := errors.AsType[*openError](err)
	return is || failure.IsUnreached(err)
}

// OwnConnections reports whether each caller has a connection of its own.
func (c *Client) OwnConnections() bool {
	return !slices.ContainsFunc(c.table.Load().places, func(p *place) bool {
		client := p.client.Load()
		if client == nil {
			return false
		}
		engine, says := (*client).(interface{ OwnConnections() bool })
		return !says || !engine.OwnConnections()
	})
}

// change gives calls to other addresses, if they are others. New calls go to the new ones. The clients of
// addresses that left are closed when their calls have ended.
func (c *Client) change(found []string) bool {
	before := c.table.Load()
	var places []*place
	for _, address := range found {
		i := slices.IndexFunc(before.places, func(p *place) bool { return p.address == address })
		if i >= 0 {
			places = append(places, before.places[i])
		} else {
			places = append(places, &place{address: address, idle: make(chan struct{}, 1)})
		}
	}
	left := slices.DeleteFunc(slices.Clone(before.places), func(p *place) bool { return slices.Contains(places, p) })
	if len(places) == len(before.places) && len(left) == 0 {
		return false
	}
	t := arrange(places, before.homes, c.homes())
	c.guard.Lock()
	for _, p := range places {
		c.all = lists.AppendNew(c.all, p)
	}
	c.guard.Unlock()
	c.openInTime(c.life, t)
	c.table.Store(t)
	for _, p := range left {
		p.left.Store(true)
		c.running.Go(func() { c.retire(p) }) // ends with the place's calls, or with c.life
	}
	return true
}

// retire closes the client of a place that left, when its last call has ended.
func (c *Client) retire(p *place) {
	for p.calls.Load() > 0 {
		select {
		case <-p.idle:
		case <-c.life.Done():
			return // Close closes it
		}
	}
	if ended := p.opening.Load(); ended != nil {
		<-*ended // it ends with c.life, too
	}
	c.guard.Lock()
	defer c.guard.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other *place) bool { return other == p })
	c.gone = (&record.Addresses{All: c.gone}).Plus(record.Addresses{All: []record.Address{p.describe()}}).All
	c.retired += p.connections()
	if client := p.client.Load(); client != nil {
		_ = (*client).Close() // nothing waits for it
	}
}

// Connections implements service.Counted.
func (c *Client) Connections() (all int) {
	c.guard.Lock()
	defer c.guard.Unlock()
	for _, p := range c.all {
		all += p.connections()
	}
	return all + c.retired
}

// Addresses implements service.Counted.
func (c *Client) Addresses() *record.Addresses {
	c.guard.Lock()
	defer c.guard.Unlock()
	r := record.Addresses{All: c.gone}
	for _, p := range c.all {
		r = r.Plus(record.Addresses{All: []record.Address{p.describe()}})
	}
	r.Policy = string(c.plan.Addresses.Policy)
	if c.watcher != nil {
		r.LookUps = c.watcher.counts()
	}
	return &r
}

// Close closes the clients of all places.
func (c *Client) Close() error {
	c.end()
	c.running.Wait()
	return c.closeAll()
}

func (c *Client) closeAll() error {
	c.guard.Lock()
	defer c.guard.Unlock()
	var closing sync.WaitGroup
	errs := make([]error, len(c.all))
	for i, p := range c.all {
		if client := p.client.Load(); client != nil {
			closing.Go(func() { errs[i] = (*client).Close() })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}
