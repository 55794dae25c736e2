package httpwire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/wire/conn"
)

// connection carries requests: an *http.ClientConn or an *h3Conn.
type connection interface {
	http.RoundTripper
	// Close ends the connection. Further calls do nothing.
	io.Closer
	// Err returns an error if the connection accepts no more requests.
	Err() error
}

// connector opens connections to the plan's server.
type connector interface {
	connect(ctx context.Context) (connection, error)
	// verify checks that the server speaks the plan's version. It also waits for the TLS session
	// that later connections resume.
	verify(ctx context.Context, opened connection) error
	// waitError returns the error for a request whose context ended with err. The request was
	// waiting for another request to open the connection.
	waitError(err error) error
	// Close ends all connections, and cancels those that are being opened.
	io.Closer
}

// singleUseRoundTripper opens one connection per request, and closes it with the response's body.
type singleUseRoundTripper struct {
	connector
	plan ClientPlan
}

// newSingleUseRoundTripper opens a test connection, unless the client is silent and resumes no
// session.
func newSingleUseRoundTripper(ctx context.Context, plan ClientPlan, c connector) (*singleUseRoundTripper, error) {
	if plan.Silent && plan.Lifecycle == conn.Fresh {
		return &singleUseRoundTripper{connector: c, plan: plan}, nil
	}
	tested, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tested.Close() }()
	return &singleUseRoundTripper{connector: c, plan: plan}, c.verify(ctx, tested)
}

func (s *singleUseRoundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
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

// closeAfter wraps a response's body so that its connection closes with the body. The end of ctx
// also closes the connection, since a caller may cancel ctx and not close the body.
func closeAfter(ctx context.Context, body io.ReadCloser, conn io.Closer) io.ReadCloser {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &closingBody{ReadCloser: body, end: func() {
		stop()
		_ = conn.Close()
	}}
}

// closingBody calls end when the body has been read or closed.
type closingBody struct {
	io.ReadCloser
	end func()
}

func (b *closingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// Close calls end even if part of the body is unread.
func (b *closingBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// pool distributes requests over a fixed number of connections, one after another. net/http's own
// HTTP/2 pool opens a second connection only at the server's stream limit. quic-go's pool has only
// one.
type pool struct {
	connector
	slots conn.RoundRobin[*slot]
}

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

// slot holds one connection, and opens a new one if it has failed.
type slot struct {
	current atomic.Pointer[connection]
	opening chan struct{} // a lock: it contains one element while a request opens the connection
}

// connection returns the slot's connection. It opens one if there is none or it has failed.
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
		return *current, nil // another request opened the connection while this one waited
	}
	opened, err := c.connect(ctx)
	if err == nil {
		s.current.Store(&opened)
	}
	return opened, err
}
