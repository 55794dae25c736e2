package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService returns the service whose health decides whether a connection is used
// (grpc/doc/health-checking.md). on is false if the service config names none.
func (sc *subConn) healthService() (name string, on bool) {
	c := sc.client()
	config := c.pick.Load().config
	if c.opts.disableHealthCheck || config == nil || config.HealthCheckConfig == nil {
		return "", false
	}
	return config.HealthCheckConfig.ServiceName, true
}

// watchHealth lets the server's health decide the subConn's state, if the balancer asked
// for that when it made the subConn. The lock is held.
func (sc *subConn) watchHealth(cc *clientConn) bool {
	service, on := sc.healthService()
	if !on || !sc.options.HealthCheckEnabled {
		return false
	}
	go sc.pollHealth(sc.connCtx, service, func(state connectivity.State, err error) {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		if sc.conn == cc {
			sc.setState(state, err)
		}
	})
	return true
}

// healthListener is a balancer's listener for the health of a subConn that is ready. It
// counts while it is the subConn's.
type healthListener struct{ cancel context.CancelFunc }

// RegisterHealthListener reports the server's health to f until the state changes or
// there is another listener. Without health checks it reports Ready once.
func (sc *subConn) RegisterHealthListener(f func(balancer.SubConnState)) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.stopHealthListener()
	if sc.reported != connectivity.Ready || sc.conn == nil || f == nil {
		return
	}
	ctx, cancel := context.WithCancel(sc.connCtx)
	l := &healthListener{cancel}
	sc.health = l
	report := func(state connectivity.State, err error) {
		sc.tell(func() {
			sc.mu.Lock()
			counts := sc.health == l
			sc.mu.Unlock()
			if counts {
				f(balancer.SubConnState{ConnectivityState: state, ConnectionError: err})
			}
		})
	}
	service, on := sc.healthService()
	if !on {
		report(connectivity.Ready, nil)
		return
	}
	go sc.pollHealth(ctx, service, report)
}

// stopHealthListener ends the watch of a registered listener, with the lock held.
func (sc *subConn) stopHealthListener() {
	if sc.health != nil {
		sc.health.cancel()
		sc.health = nil
	}
}

// pollHealth watches the server's health service on this connection until ctx ends. A
// server without that service counts as healthy.
func (sc *subConn) pollHealth(ctx context.Context, service string, report func(connectivity.State, error)) {
	for failures := 0; ctx.Err() == nil; failures++ {
		if failures > 0 && !sleep(ctx, backoffFor(&backoff.DefaultConfig, failures-1), nil) {
			return
		}
		report(connectivity.Connecting, nil)
		err := sc.watchOnce(ctx, service, func(state connectivity.State, err error) {
			failures = -1 // the next call needs no pause
			report(state, err)
		})
		switch {
		case status.Code(err) == codes.Unimplemented:
			report(connectivity.Ready, nil)
			return
		case !errors.Is(err, errNoHealthStream):
			report(connectivity.TransientFailure, fmt.Errorf("connection active but received health check RPC error: %w", err))
		}
	}
}

var errNoHealthStream = errors.New("fastgrpc: the health service could not be called")

// watchOnce makes one call of the health service and returns how it ended.
func (sc *subConn) watchOnce(ctx context.Context, service string, report func(connectivity.State, error)) error {
	s, err := sc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, healthgrpc.Health_Watch_FullMethodName)
	if err != nil {
		return errNoHealthStream
	}
	if err := s.SendMsg(&healthgrpc.HealthCheckRequest{Service: service}); err != nil && !errors.Is(err, io.EOF) {
		return errNoHealthStream
	}
	_ = s.CloseSend()
	for {
		reply := new(healthgrpc.HealthCheckResponse)
		if err := s.RecvMsg(reply); err != nil {
			return err
		}
		if reply.Status == healthgrpc.HealthCheckResponse_SERVING {
			report(connectivity.Ready, nil)
		} else {
			report(connectivity.TransientFailure, fmt.Errorf("connection active but health check failed. status=%s", reply.Status))
		}
	}
}
