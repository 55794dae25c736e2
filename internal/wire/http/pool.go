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
	// Err returns an error if the connection takes no further request.
	Err() error
}

// connector opens connections to the plan's server.
type connector interface {
	connect(ctx context.Context) (connection, error)
	// verify checks that the server speaks the plan's version, and waits for the session that
	// later connections resume.
	verify(ctx context.Context, opened connection) error
	// waitError returns the error of a request whose context ended with err while it waited for
	// another one to open its connection.
	waitError(err error) error
	// Close ends every connection, and the attempts to open one.
	io.Closer
}

// singleUse opens a connection for every request, and closes it with the response's body.
type singleUse struct {
	connector
	plan ClientPlan
}

// newSingleUse opens a connection as a test, unless the client is silent and resumes no session.
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

// closeAfter wraps the body of a connection's only response: the connection ends with the body,
// or with ctx, which a caller may cancel instead of closing the body.
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

// pool spreads requests over a fixed number of connections in turn. net/http's pool of HTTP/2
// opens a second one only at the server's stream limit; quic-go's has one.
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

// slot holds one connection, and replaces it after it has closed.
type slot struct {
	current atomic.Pointer[connection]
	opening chan struct{} // a lock of capacity 1: held while the connection is being opened
}

// connection returns the slot's connection, or a new one if there is none or it has failed.
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
