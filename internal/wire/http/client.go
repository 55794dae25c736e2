package httpwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/wire/conn"
)

// Client makes requests. Goroutines may use it concurrently.
type Client struct {
	http    *http.Client
	closing io.Closer
	h3      *h3Client // nil over TCP
}

// NewClient makes a client. Before it returns it opens the connections that are
// kept, or opens one as a test and stores the session that later ones resume.
// ctx limits that time.
func NewClient(ctx context.Context, plan ClientPlan) (*Client, error) {
	client, err := newClient(ctx, plan)
	if err == nil {
		return client, nil
	}
	err = fmt.Errorf("open connections to %s: %w", plan.Address, plan.explainDialError(ctx, err))
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		// The end of ctx closed a connection, and net/http reported only that.
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
		carrier, err = newH3Carrier(ctx, made.h3)
	case plan.Lifecycle == conn.Early:
		return nil, fmt.Errorf("early data needs HTTP/3 (QUIC), and the plan asks for %v: %w", plan.Version, errors.ErrUnsupported)
	default:
		client := newTCPClient(plan)
		made.closing = client
		carrier, err = newTCPCarrier(ctx, client)
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

// Do sends a request as http.Client.Do does. If the request has its own
// connection, that is closed with the response's body, or when the request's
// context ends.
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
	if c.h3 == nil {
		return conn.Traffic{}, false
	}
	return c.h3.Traffic(), true
}

// connection carries requests: an *http.ClientConn or an *h3Conn.
type connection interface {
	http.RoundTripper
	// Close ends the connection. Further calls do nothing.
	io.Closer
	// Err returns an error if the connection takes no further request.
	Err() error
}

// connector opens connections to the plan's server.
type connector interface {
	connect(ctx context.Context) (connection, error)
	// verify checks that the server on a new connection speaks the plan's version,
	// and waits for the session that later connections resume.
	verify(ctx context.Context, opened connection) error
	// waitError returns the error of a request whose context ended with err while
	// another request was opening its connection.
	waitError(err error) error
	// Close ends every connection, and the attempts to open one.
	io.Closer
}

// singleUse opens a connection for every request, and closes it with the
// response's body.
type singleUse struct {
	connector
	plan ClientPlan
}

// newSingleUse opens one connection as a test, unless the client is silent: then each
// connection is one call's.
func newSingleUse(ctx context.Context, plan ClientPlan, c connector) (*singleUse, error) {
	if plan.Silent && plan.Lifecycle == conn.Fresh {
		return &singleUse{connector: c, plan: plan}, nil
	}
	tested, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tested.Close() }()
	return &singleUse{connector: c, plan: plan}, c.verify(ctx, tested)
}

func (s *singleUse) RoundTrip(request *http.Request) (*http.Response, error) {
	begin := time.Now()
	ctx := request.Context()
	conn, err := s.connect(ctx)
	if err != nil {
		return failRequest(request, err)
	}
	response, err := conn.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { s.plan.Dialer.FirstByte(time.Since(begin)) },
	})))
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	response.Body = closeAfter(ctx, response.Body, conn)
	return response, nil
}

// closeAfter wraps the body of a connection's only response: the connection ends
// with the body, or when ctx ends, since a caller may cancel its context instead of
// closing the body.
func closeAfter(ctx context.Context, body io.ReadCloser, conn io.Closer) io.ReadCloser {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &lastBody{ReadCloser: body, end: func() {
		stop()
		_ = conn.Close()
	}}
}

// lastBody calls end at the end of the body.
type lastBody struct {
	io.ReadCloser
	end func()
}

func (b *lastBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// Close calls end even if part of the body is unread.
func (b *lastBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// pool keeps a fixed number of connections and spreads requests over them in turn.
// net/http's own pool of HTTP/2 has one, and opens another only when the server's stream
// limit is reached; quic-go's has one.
type pool struct {
	connector
	slots conn.Turns[*slot]
}

// openPool opens the connections.
func openPool(ctx context.Context, plan ClientPlan, c connector) (*pool, error) {
	p := &pool{connector: c}
	for range max(plan.Connections, 1) {
		p.slots.All = append(p.slots.All, &slot{opening: make(chan struct{}, 1)})
	}
	return p, conn.OpenEach(ctx, len(p.slots.All), func(ctx context.Context, i int) error {
		opened, err := p.slots.All[i].connection(ctx, c)
		if err != nil {
			return err
		}
		return c.verify(ctx, opened)
	})
}

func (p *pool) RoundTrip(request *http.Request) (*http.Response, error) {
	opened, err := p.slots.Next().connection(request.Context(), p.connector)
	if err != nil {
		return failRequest(request, err)
	}
	return opened.RoundTrip(request)
}

// slot holds one connection, and the next one when that has closed.
type slot struct {
	current atomic.Pointer[connection]
	opening chan struct{} // a lock of capacity 1: held while the connection is being opened
}

// connection returns the slot's connection. It opens a new one if there is none or it has
// failed.
func (s *slot) connection(ctx context.Context, c connector) (connection, error) {
	if current := s.current.Load(); current != nil && (*current).Err() == nil {
		return *current, nil
	}
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", c.waitError(ctx.Err()))
	}
	if current := s.current.Load(); current != nil && (*current).Err() == nil {
		return *current, nil // another request has opened it meanwhile
	}
	opened, err := c.connect(ctx)
	if err == nil {
		s.current.Store(&opened)
	}
	return opened, err
}
