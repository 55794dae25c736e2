package httpwire

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/wire/conn"
)

// h1Pool is net/http's pool of HTTP/1.1 connections, full from the beginning.
type h1Pool struct{ *tcpClient }

// newH1Pool opens the connections. It does not let net/http dial: if ctx ended, net/http
// would report only that, and not the error of the dial.
func newH1Pool(ctx context.Context, client *tcpClient) (*h1Pool, error) {
	size := max(client.plan.Connections, 1)
	ahead, err := conn.OpenAhead(ctx, size, client.dial)
	if err != nil {
		return nil, err
	}
	client.transport = client.newTransport(ahead.Dial)
	p := &h1Pool{client}
	if client.plan.Silent { // the first requests take them
		return p, nil
	}
	return p, p.handOver(ctx, size)
}

// RoundTrip implements http.RoundTripper.
func (p *h1Pool) RoundTrip(request *http.Request) (*http.Response, error) {
	return p.transport.RoundTrip(request)
}

// handOver moves the n connections into net/http's pool with one request on each.
// No request is sent before every request has its connection, so that none
// reuses the connection of one that is finished.
func (p *h1Pool) handOver(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	var missing atomic.Int64
	missing.Store(int64(n))
	complete := make(chan struct{})
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if missing.Add(-1) == 0 {
				close(complete)
			}
			select {
			case <-complete:
			case <-ctx.Done():
			}
		},
	})
	for range n {
		group.Go(func() error { return p.plan.ping(ctx, p) })
	}
	return group.Wait()
}
