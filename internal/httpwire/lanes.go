package httpwire

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// lanes keeps HTTP/2 connections, which requests share and take in turns.
// net/http's own pool would have one, and a second one where the server's limit
// of streams is met; here there are as many as were asked for, always.
type lanes struct {
	plan      ClientPlan
	transport *http.Transport
	life      context.Context // ends with Close
	endLife   context.CancelFunc
	turn      atomic.Uint32
	lanes     []lane
}

// lane is one connection and, when that has gone, the next.
type lane struct {
	conn    atomic.Pointer[http.ClientConn]
	opening chan struct{} // taken by the one who opens the connection
}

func newLanes(ctx context.Context, plan ClientPlan) (*lanes, error) {
	l := &lanes{plan: plan, transport: plan.newTransport(), lanes: make([]lane, max(plan.Connections, 1))}
	l.life, l.endLife = context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	for i := range l.lanes {
		at := &l.lanes[i]
		at.opening = make(chan struct{}, 1)
		group.Go(func() error {
			conn, err := l.connection(ctx, at)
			if err != nil {
				return err
			}
			return plan.pingOnce(ctx, conn)
		})
	}
	if err := group.Wait(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// RoundTrip implements http.RoundTripper.
func (l *lanes) RoundTrip(request *http.Request) (*http.Response, error) {
	at := &l.lanes[int(l.turn.Add(1))%len(l.lanes)]
	conn, err := l.connection(request.Context(), at)
	if err != nil {
		return giveUp(request, err)
	}
	return conn.RoundTrip(request)
}

// connection is the lane's; a new one where there is none that works.
func (l *lanes) connection(ctx context.Context, at *lane) (*http.ClientConn, error) {
	if conn := at.conn.Load(); conn != nil && conn.Err() == nil {
		return conn, nil
	}
	select {
	case at.opening <- struct{}{}:
		defer func() { <-at.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if conn := at.conn.Load(); conn != nil && conn.Err() == nil {
		return conn, nil // another request has opened it meanwhile
	}
	conn, err := l.plan.dial(ctx, l.life, l.transport)
	if err != nil {
		return nil, err
	}
	if l.life.Err() != nil {
		_ = conn.Close()
		return nil, errClosed
	}
	at.conn.Store(conn)
	return conn, nil
}

// Close implements carrier. It waits for whoever is opening a connection.
func (l *lanes) Close() error {
	l.endLife()
	var closing sync.WaitGroup
	for i := range l.lanes {
		closing.Go(func() {
			at := &l.lanes[i]
			at.opening <- struct{}{}
			defer func() { <-at.opening }()
			if conn := at.conn.Load(); conn != nil {
				_ = conn.Close()
			}
		})
	}
	closing.Wait()
	return nil
}
