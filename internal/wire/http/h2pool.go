package httpwire

import (
	"context"
	"net/http"
	"sync/atomic"

	"wirelab.dev/internal/wire/conn"
)

// h2Pool keeps a fixed number of HTTP/2 connections and spreads requests over
// them in turn. net/http's own pool has one, and opens another only when the
// server's stream limit is reached.
type h2Pool struct {
	*tcpClient
	slots conn.Turns[*h2Slot]
}

// h2Slot holds one connection, and the next one when that has closed.
type h2Slot struct {
	conn    atomic.Pointer[http.ClientConn]
	opening chan struct{} // a lock of capacity 1: held while the connection is being opened
}

func newH2Pool(ctx context.Context, client *tcpClient) (*h2Pool, error) {
	p := &h2Pool{tcpClient: client}
	for range max(client.plan.Connections, 1) {
		p.slots.All = append(p.slots.All, &h2Slot{opening: make(chan struct{}, 1)})
	}
	return p, conn.OpenEach(ctx, len(p.slots.All), func(ctx context.Context, i int) error {
		opened, err := p.connection(ctx, p.slots.All[i])
		if err != nil {
			return err
		}
		return p.plan.ping(ctx, opened)
	})
}

// RoundTrip implements http.RoundTripper.
func (p *h2Pool) RoundTrip(request *http.Request) (*http.Response, error) {
	opened, err := p.connection(request.Context(), p.slots.Next())
	if err != nil {
		return failRequest(request, err)
	}
	return opened.RoundTrip(request)
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
	conn, err := p.newClientConn(ctx)
	if err == nil {
		slot.conn.Store(conn)
	}
	return conn, err
}

// h2Transports has a pool of net/http's own for each connection. Unlike h2Pool it sends a
// request again if the server ended the connection before it began the request. Some
// proxies end their connections after some number of requests.
type h2Transports struct {
	*tcpClient
	all conn.Turns[*http.Transport]
}

func newH2Transports(ctx context.Context, client *tcpClient) (*h2Transports, error) {
	size := max(client.plan.Connections, 1)
	ahead, err := conn.OpenAhead(ctx, size, client.dial)
	if err != nil {
		return nil, err
	}
	client.dialWith(ahead.Dial)
	client.transport.MaxConnsPerHost = 1
	p := &h2Transports{tcpClient: client}
	for range size {
		p.all.All = append(p.all.All, client.transport.Clone())
	}
	return p, nil
}

// RoundTrip implements http.RoundTripper.
func (p *h2Transports) RoundTrip(request *http.Request) (*http.Response, error) {
	return p.all.Next().RoundTrip(request)
}
