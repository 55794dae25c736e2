// Package connect holds the parts of a client that work before it has a connection. They parse
// targets, choose resolvers and authorities, connect through proxies, compute pauses between
// attempts, watch a server's health, and run resolvers and balancers one call at a time.
//
// It must not know the client's connections or calls.
package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// WatchHealth calls the server's health service on connection cc, and reports the health of a
// service until ctx ends. A server without a health service counts as healthy.
func WatchHealth(ctx context.Context, cc grpc.ClientConnInterface, service string, report func(connectivity.State, error)) {
	for failures := 0; ctx.Err() == nil; failures++ {
		if failures > 0 && !Sleep(ctx, Backoff(&backoff.DefaultConfig, failures-1), nil) {
			return
		}
		report(connectivity.Connecting, nil)
		err := watchHealthOnce(ctx, cc, service, func(state connectivity.State, err error) {
			failures = -1 // the next call of the health service needs no pause
			report(state, err)
		})
		switch {
		case status.Code(err) == codes.Unimplemented:
			report(connectivity.Ready, nil)
			return
		case !errors.Is(err, errNoHealthStream):
			report(connectivity.TransientFailure, fmt.Errorf("fastgrpc: the server's health service returned an error: %w", err))
		}
	}
}

var errNoHealthStream = errors.New("fastgrpc: the client could not call the server's health service")

// watchHealthOnce calls the health service once and returns the error that ended the call.
func watchHealthOnce(ctx context.Context, cc grpc.ClientConnInterface, service string, report func(connectivity.State, error)) error {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, healthgrpc.Health_Watch_FullMethodName)
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
			report(connectivity.TransientFailure, fmt.Errorf("fastgrpc: the server's health service reports the status %s, want SERVING", reply.Status))
		}
	}
}

// Backoff returns the pause before the next connection attempt (grpc/doc/connection-backoff.md). It
// grows with the failures up to a maximum, and varies at random.
func Backoff(b *backoff.Config, failures int) time.Duration {
	if failures == 0 {
		return b.BaseDelay
	}
	d := min(float64(b.BaseDelay)*math.Pow(b.Multiplier, float64(failures)), float64(b.MaxDelay))
	return time.Duration(max(0, d*(1+b.Jitter*(2*rand.Float64()-1))))
}

// Sleep waits for the duration d. It returns false if ctx ends or now is closed before that.
func Sleep(ctx context.Context, d time.Duration, now <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-now:
	case <-ctx.Done():
	}
	return false
}

// A Serializer runs functions one at a time, in order, on a goroutine that exists only while
// functions are queued. Resolvers and balancers need it: they expect that their methods are called
// one at a time, and that the caller holds no lock.
type Serializer struct {
	mu      sync.Mutex
	queue   []func()
	running chan struct{} // closed when the queue becomes empty; nil while it is empty
}

// Do queues a function and returns at once.
func (s *Serializer) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	if s.running == nil {
		s.running = make(chan struct{})
		go s.run()
	}
}

func (s *Serializer) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		f := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
		s.mu.Lock()
	}
	s.queue = nil
	close(s.running)
	s.running = nil
}

// Wait waits until all queued functions have run.
func (s *Serializer) Wait() {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}
