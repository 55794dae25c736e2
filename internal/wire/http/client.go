package httpwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"wirelab.dev/internal/wire/conn"
)

// Client sends HTTP requests. Goroutines may use it concurrently.
type Client struct {
	http    *http.Client
	closing io.Closer
	h3      *h3Client // nil over TCP
}

// NewClient makes a client, or fails when ctx ends. It opens the kept connections. If connections
// are not kept, it opens one connection as a test, and stores its TLS session for later
// connections.
func NewClient(ctx context.Context, plan ClientPlan) (*Client, error) {
	client, err := newClient(ctx, plan)
	if err == nil {
		return client, nil
	}
	err = fmt.Errorf("open connections to %s: %w", plan.Address, plan.explainDialError(ctx, err))
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		// A connection was closed because ctx ended, but net/http's error does not say so.
		err = fmt.Errorf("%w: %w", err, ended)
	}
	return nil, err
}

func newClient(ctx context.Context, plan ClientPlan) (made *Client, err error) {
	made = &Client{}
	var carrier http.RoundTripper
	switch {
	case plan.Version == HTTP3:
		if made.h3, err = newH3Client(ctx, plan); err != nil {
			return nil, err
		}
		made.closing = made.h3
		carrier, err = newH3RoundTripper(ctx, made.h3)
	case plan.Lifecycle == conn.Early:
		return nil, fmt.Errorf("early data needs HTTP/3 (QUIC), and the plan asks for %v: %w", plan.Version, errors.ErrUnsupported)
	default:
		client := newTCPClient(plan)
		made.closing = client
		carrier, err = newTCPRoundTripper(ctx, client)
	}
	if err != nil {
		_ = made.Close()
		return nil, err
	}
	made.http = newHTTPClient(carrier)
	return made, nil
}

func newHTTPClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Do sends a request as http.Client.Do does. If the request has its own connection, the connection
// closes when the response's body is closed or the request's context ends.
func (c *Client) Do(request *http.Request) (*http.Response, error) { return c.http.Do(request) }

// Close ends the running requests and closes every connection.
func (c *Client) Close() error { return c.closing.Close() }

// Scheme returns the URL scheme of the plan's requests.
func (p ClientPlan) Scheme() string {
	if p.TLS != nil {
		return "https"
	}
	return "http"
}

// Host returns the host in the plan's URLs. For a unix socket it is a placeholder.
func (p ClientPlan) Host() string {
	if p.Network == "unix" {
		return "localhost"
	}
	return p.Address
}

// sendOptions sends OPTIONS *, a request without an effect (RFC 9110, section 9.3.7). It accepts
// any answer, and reads at most 64 KiB of its body. It does nothing if p.Silent is set.
func (p ClientPlan) sendOptions(ctx context.Context, transport http.RoundTripper) error {
	if p.Silent {
		return nil
	}
	const maxBytes = 64 << 10
	request := &http.Request{
		Method: http.MethodOptions,
		URL:    &url.URL{Scheme: p.Scheme(), Host: p.Host(), Path: "*"},
		Header: http.Header{},
	}
	response, err := transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	p.Dialer.UsedProtocol(fmt.Sprintf("h%d", response.ProtoMajor))
	_, err = io.CopyN(io.Discard, response.Body, maxBytes)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Traffic returns the traffic of all QUIC connections so far. ok is false over TCP.
func (c *Client) Traffic() (traffic conn.Traffic, ok bool) {
	if c.h3 == nil {
		return conn.Traffic{}, false
	}
	return c.h3.Traffic(), true
}
