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
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/failure"
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
	running sync.WaitGroup // the goroutines that open clients

	guard sync.Mutex // serializes changes of the table
	all   []*place   // every place that was ever used
}

// A table is one state of the addresses. It does not change.
type table struct {
	places []*place
	homes  []*place // by caller, or by stream; callers beyond it have the homes of the first ones
}

// Open opens the clients of all addresses. It fails if none of them can be opened.
func Open(ctx context.Context, plan service.Plan, engine Engine) (service.Client, error) {
	own := plan.Holding != nil || plan.Lifecycle == conn.Kept && (plan.Connections >= plan.Callers || plan.Wire == service.HTTP1)
	if own && plan.Addresses.Policy == service.LeastCalls {
		return nil, errors.New("--addresses least chooses an address for each call, but here each client keeps its connection: write --addresses all, or let gRPC or --http 2 share connections with --conn shared")
	}
	c := &Client{plan: plan, engine: engine, turns: !own}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, address := range plan.Addresses.All {
		c.all = append(c.all, &place{address: address})
	}
	if err := c.openAll(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if plan.Holding != nil {
		return &holder{Client: c, homes: map[int]*place{}}, nil
	}
	return c, nil
}

// openAll opens the clients of all places that accept connections, and gives the callers of the others
// to them.
func (c *Client) openAll(ctx context.Context) error {
	for open := c.all; ; {
		t := c.arrange(open, nil)
		errs := c.openInTime(ctx, t)
		failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
		if len(failed) == len(open) || ctx.Err() != nil {
			return fmt.Errorf("no address accepted a connection: %w", errors.Join(failed...))
		}
		if len(failed) == 0 || c.turns {
			c.table.Store(&table{places: c.all, homes: t.homes})
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
		if c.quota(t, t.places[i]) == 0 {
			return nil
		}
		if errs[i] = c.open(limited, t, t.places[i]); errs[i] == nil {
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
	p.client.Store(&client)
	return nil
}

// arrange returns a table of places. Callers keep the homes that they had before, as far as all
// places get the same number of callers.
func (c *Client) arrange(places, before []*place) *table {
	t := &table{places: places}
	if c.turns {
		return t
	}
	callers := c.plan.Connections
	if c.plan.Holding != nil {
		callers = max(1, c.plan.Callers/c.plan.Holding.InFlight)
	}
	t.homes = make([]*place, max(1, callers))
	free := map[*place]int{}
	for i, p := range places {
		free[p] = len(t.homes) / len(places)
		if i < len(t.homes)%len(places) {
			free[p]++
		}
	}
	for i, home := range before {
		if free[home] > 0 {
			t.homes[i] = home
			free[home]--
		}
	}
	next := 0
	for i, home := range t.homes {
		for ; home == nil; next++ {
			if p := places[next%len(places)]; free[p] > 0 {
				home, t.homes[i] = p, p
				free[p]--
			}
		}
	}
	return t
}

// Call gives the call to a place. If the place accepts no connection, the next one gets the call.
func (c *Client) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	own, _ := answer.CallerState.(*caller)
	if own == nil {
		own = &caller{number: int(c.callers.Add(1) - 1), states: map[*place]any{}}
	}
	t, begin := c.table.Load(), clock.Now()
	limit := int64(cmp.Or(request.Timeout, c.plan.Timeout))
	var err error
	for range t.places {
		p := c.choose(t, own)
		if err = c.callAt(ctx, p, own, request, answer); err == nil || !neverSent(err) || ctx.Err() != nil {
			return err
		}
		if limit > 0 && clock.Now()-begin >= limit {
			return err
		}
	}
	if p := awaitOpen(ctx, t); p != nil {
		return c.callAt(ctx, p, own, request, answer)
	}
	return err
}

// awaitOpen waits for the places that are being opened, until one is open. It returns nil if none is.
func awaitOpen(ctx context.Context, t *table) *place {
	for _, p := range t.places {
		if ended := p.opening.Load(); ended != nil {
			select {
			case <-*ended:
			case <-ctx.Done():
				return nil
			}
			if p.client.Load() != nil {
				return p
			}
		}
	}
	return nil
}

// choose returns the place of a caller's next call.
func (c *Client) choose(t *table, own *caller) *place {
	places, at := c.orderFor(t, own)
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

// orderFor returns the places in a caller's order, and the one whose turn it is.
func (c *Client) orderFor(t *table, own *caller) (places []*place, at int) {
	if c.turns {
		return own.nextTurn(t)
	}
	return t.places, slices.Index(t.places, t.homes[own.number%len(t.homes)])
}

// callAt makes a call at a place. The engine keeps what it knows of the caller in its own state.
func (c *Client) callAt(ctx context.Context, p *place, own *caller, request *service.Request, answer *service.Answer) error {
	p.calls.Add(1)
	defer p.calls.Add(-1)
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

// Connections implements service.Counted.
func (c *Client) Connections() (all int) {
	t := c.table.Load()
	for _, p := range t.places {
		if p.client.Load() != nil {
			all += c.quota(t, p)
		}
	}
	return all
}

// Addresses implements service.Counted.
func (c *Client) Addresses() *record.Addresses {
	c.guard.Lock()
	defer c.guard.Unlock()
	r := &record.Addresses{Policy: string(c.plan.Addresses.Policy)}
	for _, p := range c.all {
		r.All = append(r.All, p.describe())
	}
	return r
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

// A caller is one client of the load. One goroutine uses it.
type caller struct {
	number int
	states map[*place]any // what each place's engine keeps of the caller
	of     *table         // the table of the round
	round  []*place
	turn   int
}

// nextTurn returns the places in the order of the caller's round, and whose turn it is. The first
// round begins at another place for each caller.
func (c *caller) nextTurn(t *table) (round []*place, at int) {
	switch {
	case c.of != t:
		at := c.number % len(t.places)
		c.of, c.round, c.turn = t, slices.Concat(t.places[at:], t.places[:at]), 0
	case c.turn == len(c.round):
		rand.Shuffle(len(c.round), func(i, j int) { c.round[i], c.round[j] = c.round[j], c.round[i] })
		c.turn = 0
	}
	c.turn++
	return c.round, c.turn - 1
}

// A place is an address with its client.
type place struct {
	address string
	client  atomic.Pointer[service.Client] // nil until a connection could be opened
	opening atomic.Pointer[chan struct{}]  // closed when the client has been opened, or could not be; nil while nothing is opened
	calls   atomic.Int64                   // calls under way
	pause   atomic.Int64                   // length of the pause after the last failure, in ns; 0 after a good call
	until   atomic.Int64                   // the instant at which the pause ends

	guard   sync.Mutex
	failed  int64  // attempts to connect that failed
	example string // the error of the first one
	last    error
}

// A pause after a failed attempt is as long as that of a caller whose service does not listen.
const minPause, maxPause = int64(10 * time.Millisecond), int64(time.Second)

// fail counts a failed attempt to connect, and begins a pause.
func (p *place) fail(err error) {
	p.rest(min(max(2*p.pause.Load(), minPause), maxPause))
	p.guard.Lock()
	defer p.guard.Unlock()
	p.last = err
	if p.failed++; p.failed == 1 {
		p.example = err.Error()
	}
}

func (p *place) lastError() error {
	p.guard.Lock()
	defer p.guard.Unlock()
	return cmp.Or(p.last, errors.New("a connection to "+p.address+" is not open yet"))
}

// rest begins a pause, in which the place gets no calls if another one accepts them.
func (p *place) rest(pause int64) {
	p.pause.Store(pause)
	p.until.Store(clock.Now() + pause)
}

func (p *place) isDown(now int64) bool {
	return p.opening.Load() != nil || p.pause.Load() > 0 && now < p.until.Load()
}

func (p *place) describe() record.Address {
	p.guard.Lock()
	defer p.guard.Unlock()
	return record.Address{Address: p.address, Unreached: p.failed, Example: p.example}
}
