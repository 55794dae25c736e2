package httpwire

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// h1Pool is net/http's pool of HTTP/1.1 connections, full from the beginning.
type h1Pool struct {
	*tcpClient
	opened chan net.Conn // for net/http to take
}

func newH1Pool(ctx context.Context, client *tcpClient) (*h1Pool, error) {
	size := max(client.plan.Connections, 1)
	p := &h1Pool{tcpClient: client, opened: make(chan net.Conn, size)}
	client.transport.DialContext = p.openedOr(client.dial)
	client.transport.DialTLSContext = p.openedOr(client.dialTLS)
	return p, p.openAll(ctx, size)
}

// RoundTrip implements http.RoundTripper.
func (p *h1Pool) RoundTrip(request *http.Request) (*http.Response, error) {
	return p.transport.RoundTrip(request)
}

// dialFunc is the type of http.Transport's DialContext.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// openedOr returns a dialFunc that takes a connection from p.opened, or dials if
// there is none.
func (p *h1Pool) openedOr(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case conn := <-p.opened:
			return conn, nil
		default:
			return dial(ctx, network, address)
		}
	}
}

// openAll opens n connections and leaves them idle. It does not let net/http dial:
// if ctx ended, net/http would report only that, and not the error of the dial.
func (p *h1Pool) openAll(ctx context.Context, n int) error {
	dial := p.dial
	if p.plan.TLS != nil {
		dial = p.dialTLS
	}
	opening, dialCtx := errgroup.WithContext(ctx)
	for range n {
		opening.Go(func() error {
			conn, err := dial(dialCtx, "tcp", p.plan.Address)
			if err == nil {
				p.opened <- conn
			}
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	return p.handOver(ctx, n)
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
