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

// Client makes requests. Goroutines may use it concurrently.
type Client struct {
	http    *http.Client
	carrier carrier
}

// NewClient makes a client. Before it returns it opens the connections that are
// kept, or opens one as a test and stores the session that later ones resume.
// ctx limits that time.
func NewClient(ctx context.Context, plan ClientPlan) (*Client, error) {
	carrier, err := newCarrier(ctx, plan)
	if err != nil {
		err = fmt.Errorf("open connections to %s: %w", plan.Address, plan.explainDialError(ctx, err))
		if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
			// The end of ctx closed a connection, and net/http reported only that.
			err = fmt.Errorf("%w: %w", err, ended)
		}
		return nil, err
	}
	return &Client{carrier: carrier, http: newHTTPClient(carrier)}, nil
}

func newHTTPClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newCarrier(ctx context.Context, plan ClientPlan) (carrier, error) {
	if plan.Version == HTTP3 {
		return newH3Carrier(ctx, plan)
	}
	if plan.Lifecycle == conn.Early {
		return nil, fmt.Errorf("early data needs HTTP/3 (QUIC), and the plan asks for %v: %w", plan.Version, errors.ErrUnsupported)
	}
	var made carrier
	var err error
	client := newTCPClient(plan)
	switch {
	case plan.Lifecycle != conn.Kept:
		made, err = newSingleUse(ctx, plan, client)
	case plan.Version == HTTP2 && plan.Silent:
		made, err = newH2Transports(ctx, client)
	case plan.Version == HTTP2:
		made, err = openPool(ctx, plan, client)
	default:
		made, err = newH1Pool(ctx, client)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return made, nil
}

// Do sends a request as http.Client.Do does. If the request has its own
// connection, that is closed with the response's body, or when the request's
// context ends.
func (c *Client) Do(request *http.Request) (*http.Response, error) { return c.http.Do(request) }

// Close ends the running requests and closes every connection.
func (c *Client) Close() error { return c.carrier.Close() }

// Scheme returns the URL scheme of the plan's requests.
func (p ClientPlan) Scheme() string {
	if p.TLS != nil {
		return "https"
	}
	return "http"
}

// Host returns the host of the plan's URLs. For a unix socket it is a placeholder, which
// is not dialed.
func (p ClientPlan) Host() string {
	if p.Network == "unix" {
		return "localhost"
	}
	return p.Address
}

// ping sends OPTIONS *, HTTP's request without an effect (RFC 9110, section
// 9.3.7), accepts any answer, and reads at most 64 KiB of its body. It does nothing if
// the plan is silent.
func (p ClientPlan) ping(ctx context.Context, transport http.RoundTripper) error {
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

// Traffic returns the traffic of the client's QUIC connections so far, open and closed.
// ok is false unless the client speaks HTTP/3.
func (c *Client) Traffic() (traffic conn.Traffic, ok bool) {
	counter, ok := c.carrier.(interface{ Traffic() conn.Traffic })
	if !ok {
		return conn.Traffic{}, false
	}
	return counter.Traffic(), true
}

// newH3Carrier opens the plan's connections over HTTP/3.
func newH3Carrier(ctx context.Context, plan ClientPlan) (made carrier, err error) {
	client, err := newH3Client(ctx, plan)
	if err != nil {
		return nil, err
	}
	if plan.Lifecycle == conn.Kept {
		made, err = newH3Pool(ctx, client)
	} else {
		made, err = newH3SingleUse(ctx, client)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return made, nil
}
