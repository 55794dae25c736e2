package httpwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Client makes requests, from any number of goroutines.
type Client struct {
	http    *http.Client
	carrier carrier
}

// NewClient makes a client. Connections that are kept are open before it
// returns, and what is to be resumed has been obtained; where every request has
// a connection of its own, one has been tried. ctx bounds that.
func NewClient(ctx context.Context, plan ClientPlan) (*Client, error) {
	carrier, err := newCarrier(ctx, plan)
	if err != nil {
		err = fmt.Errorf("open connections to %s: %w", plan.Address, plan.explain(ctx, err))
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
			// Its end closed a connection, and net/http heard of that first.
			err = fmt.Errorf("%w: %w", err, ended)
		}
		return nil, err
	}
	return &Client{carrier: carrier, http: newHTTPClient(carrier)}, nil
}

func newHTTPClient(through http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     through,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newCarrier(ctx context.Context, plan ClientPlan) (carrier, error) {
	switch {
	case plan.Version == HTTP3:
		return newH3Client(ctx, plan)
	case plan.Lifecycle == Early:
		return nil, fmt.Errorf("early data is QUIC's: %w", errors.ErrUnsupported)
	case plan.Lifecycle != Kept:
		return newSingles(ctx, plan)
	case plan.Version == HTTP2:
		return newLanes(ctx, plan)
	default:
		return newPool(ctx, plan)
	}
}

// Do is that of an http.Client. Where every request has a connection of its
// own, that is closed with the response's body, or when the request's context
// ends.
func (c *Client) Do(request *http.Request) (*http.Response, error) { return c.http.Do(request) }

// Close ends the requests that are running, and every connection.
func (c *Client) Close() error { return c.carrier.Close() }

// errClosed is what a carrier says after Close.
var errClosed = errors.New("the HTTP client is closed")

// Scheme is that of the URLs that the plan's client is asked for.
func (p ClientPlan) Scheme() string {
	if p.TLS != nil {
		return "https"
	}
	return "http"
}

// ping makes the request that HTTP provides for asking nothing, OPTIONS *
// (RFC 9110, section 9.3.7). Any answer will do. The answer's body is open.
func (p ClientPlan) ping(ctx context.Context, through http.RoundTripper) (*http.Response, error) {
	request := &http.Request{
		Method: http.MethodOptions,
		URL:    &url.URL{Scheme: p.Scheme(), Host: p.Address, Path: "*"},
		Header: http.Header{},
	}
	response, err := through.RoundTrip(request.WithContext(ctx))
	if err == nil {
		p.Dialer.Spoke(fmt.Sprintf("h%d", response.ProtoMajor))
	}
	return response, err
}

// pingOnce is ping with nothing left open. What it reads is bounded.
func (p ClientPlan) pingOnce(ctx context.Context, through http.RoundTripper) error {
	const most = 64 << 10
	response, err := p.ping(ctx, through)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.CopyN(io.Discard, response.Body, most)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// giveUp keeps a round tripper's promise to close the body of a request that
// it does not send.
func giveUp(request *http.Request, err error) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
	return nil, err
}
