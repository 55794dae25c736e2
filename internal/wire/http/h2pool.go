package httpwire

import (
	"context"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// h2Pool keeps a fixed number of HTTP/2 connections and spreads requests over
// them in turn. net/http's own pool has one, and opens another only when the
// server's stream limit is reached.
type h2Pool struct {
	*tcpClient
	turn  atomic.Uint32
	slots []h2Slot
}

// h2Slot holds one connection, and the next one when that has closed.
type h2Slot struct {
	conn    atomic.Pointer[http.ClientConn]
	opening chan struct{} // a lock of capacity 1: held while the connection is being opened
}

func newH2Pool(ctx context.Context, client *tcpClient) (*h2Pool, error) {
	p := &h2Pool{tcpClient: client, slots: make([]h2Slot, max(client.plan.Connections, 1))}
	group, ctx := errgroup.WithContext(ctx)
	for i := range p.slots {
		slot := &p.slots[i]
		slot.opening = make(chan struct{}, 1)
		group.Go(func() error {
			conn, err := p.connection(ctx, slot)
			if err != nil {
				return err
			}
			return p.plan.ping(ctx, conn)
		})
	}
	return p, group.Wait()
}

// RoundTrip implements http.RoundTripper.
func (p *h2Pool) RoundTrip(request *http.Request) (*http.Response, error) {
	slot := &p.slots[int(p.turn.Add(1))%len(p.slots)]
	conn, err := p.connection(request.Context(), slot)
	if err != nil {
		return failRequest(request, err)
	}
	return conn.RoundTrip(request)
}

// connection returns the slot's connection. It opens a new one if there is none
// or it has failed.
func (p *h2Pool) connection(ctx context.Context, slot *h2Slot) (*http.ClientConn, error) {
	if conn := slot.conn.Load(); conn != nil && conn.Err() == nil {
		return conn, nil
	}
	select {
	case slot.opening <- struct{}{}:
		defer func() { <-slot.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if conn := slot.conn.Load(); conn != nil && conn.Err() == nil {
		return conn, nil // another request has opened it meanwhile
	}
	conn, err := p.transport.NewClientConn(ctx, p.plan.Scheme(), p.plan.Address)
	if err == nil {
		slot.conn.Store(conn)
	}
	return conn, err
}
