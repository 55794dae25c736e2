package fastgrpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// endpoint is one server, or for pick_first the whole list of addresses to try. It has
// at most one connection that takes new calls.
type endpoint struct {
	pool       *pool
	addrs      []resolver.Address
	key        string
	connectNow chan struct{} // a call needs a connection
	stop       context.CancelFunc
	ctx        context.Context

	// Guarded by pool.mu.
	state connectivity.State
	conn  *clientConn
	err   error // why the last attempt failed; nil after one succeeds
}

func (p *pool) newEndpoint(addrs []resolver.Address, key string) *endpoint {
	e := &endpoint{pool: p, addrs: addrs, key: key, connectNow: make(chan struct{}, 1), state: connectivity.Idle}
	e.ctx, e.stop = context.WithCancel(p.ctx)
	p.running.Add(1)
	go e.run()
	return e
}

// set changes the endpoint's state and publishes a new picker.
func (e *endpoint) set(state connectivity.State, cc *clientConn, err error) {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e.state, e.conn, e.err = state, cc, err
	if !p.closed {
		p.publish()
	}
}

// minConnLife is how long a connection without calls must live to count as a success.
// Without it, a client would reconnect without a pause to a server that accepts and
// closes at once.
const minConnLife = time.Second

// run connects when a call needs a connection, and reconnects after failures.
func (e *endpoint) run() {
	defer e.pool.running.Done()
	failures := 0
	var failure error // of the last attempt; nil if it succeeded
	for {
		if failures == 0 {
			select {
			case <-e.connectNow:
			case <-e.ctx.Done():
				return
			}
		}
		e.set(connectivity.Connecting, nil, failure)
		cc, err := e.connect()
		failure = err
		worked := false
		if err != nil {
			e.set(connectivity.TransientFailure, nil, err)
		} else {
			began := time.Now()
			e.set(connectivity.Ready, cc, nil)
			if !e.waitUntilDraining(cc) {
				return
			}
			e.set(connectivity.Idle, nil, nil)
			worked = time.Since(began) >= minConnLife || cc.info().Counters.CallsStarted > 0
		}
		e.pool.resolveNow()
		if worked {
			failures = 0
			continue
		}
		if !e.waitBackoff(failures) {
			return
		}
		failures++
	}
}

// waitUntilDraining returns when the connection takes no more calls. It returns false
// if the endpoint has been stopped.
func (e *endpoint) waitUntilDraining(cc *clientConn) bool {
	select {
	case <-cc.draining:
		return e.ctx.Err() == nil
	case <-e.ctx.Done():
		cc.mu.Lock()
		cc.drain()
		cc.callsEnded()
		cc.flush()
		cc.mu.Unlock()
		return false
	}
}

// waitBackoff waits before the next attempt. It returns false if the endpoint has been
// stopped.
func (e *endpoint) waitBackoff(failures int) bool {
	timer := time.NewTimer(backoffFor(&e.pool.client.opts.backoff, failures))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.ctx.Done():
		return false
	}
}

// backoffFor returns gRPC's connection backoff (grpc/doc/connection-backoff.md):
// exponential, bounded, with jitter.
func backoffFor(b *backoff.Config, failures int) time.Duration {
	d, most := float64(b.BaseDelay), float64(b.MaxDelay)
	for ; failures > 0 && d < most; failures-- {
		d *= b.Multiplier
	}
	d = min(d, most)
	d *= 1 + b.Jitter*(2*rand.Float64()-1)
	return time.Duration(max(d, 0))
}

// connect returns a connection to the first address that accepts one.
func (e *endpoint) connect() (*clientConn, error) {
	var last error
	for _, addr := range e.addrs {
		cc, err := e.dial(addr)
		if err == nil {
			return cc, nil
		}
		if last = err; e.ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (e *endpoint) dial(addr resolver.Address) (*clientConn, error) {
	c := e.pool.client
	ctx, cancel := context.WithTimeout(e.ctx, max(c.opts.connectTimeout, time.Second))
	defer cancel()
	nc, err := c.dialSocket(ctx, addr.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, err)
	}
	authority := c.authority
	if addr.ServerName != "" {
		authority = addr.ServerName
	}
	secured, auth, err := c.opts.creds.ClientHandshake(ctx, authority, nc)
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("handshake with %s: %w", addr.Addr, err)
	}
	cc := newClientConn(c, secured, auth)
	if !e.pool.add(cc) {
		_ = secured.Close()
		return nil, ErrClientClosed
	}
	select {
	case <-cc.gotSettings:
		return cc, nil
	case <-cc.draining:
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, cc.closeReason())
	case <-ctx.Done():
		cc.close(errNoPreface)
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, errNoPreface)
	}
}

func (c *Client) dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	if c.opts.dialer != nil {
		return c.opts.dialer(ctx, addr)
	}
	network := "tcp"
	if strings.HasPrefix(c.target, "unix") {
		network = "unix"
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}
