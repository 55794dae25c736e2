package httpwire

import (
	"context"
	"errors"
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
	return &closingBody{ReadCloser: body, end: func(bool) {
		stop()
		_ = conn.Close()
	}}
}

// closingBody calls end once, when the body has been read or closed. whole says that it was read.
type closingBody struct {
	io.ReadCloser
	end   func(whole bool)
	ended atomic.Bool // Close may be called during Read
}

func (b *closingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.endOnce(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close calls end even if part of the body is unread.
func (b *closingBody) Close() error {
	err := b.ReadCloser.Close()
	b.endOnce(false)
	return err
}

func (b *closingBody) endOnce(whole bool) {
	if b.ended.CompareAndSwap(false, true) {
		b.end(whole)
	}
}

// pool distributes requests over a fixed number of connections, one after another. It sends no
// request twice. net/http's own pools do, and its HTTP/2 pool opens a second connection only at the
// server's stream limit. quic-go's pool has only one connection.
type pool struct {
	connector
	slots conn.RoundRobin[*slot]
	free  chan *slot // HTTP/1.1: the slots that carry no request; nil if connections carry many at once
	spare chan *slot // HTTP/1.1: slots that were never used
}

func openPool(ctx context.Context, plan ClientPlan, c connector) (*pool, error) {
	p := &pool{connector: c}
	for range max(plan.Connections, 1) {
		p.slots.All = append(p.slots.All, &slot{opening: make(chan struct{}, 1)})
	}
	if plan.Version == HTTP1 {
		p.free, p.spare = make(chan *slot, len(p.slots.All)+plan.Spare), make(chan *slot, plan.Spare)
		for range plan.Spare {
			p.spare <- &slot{opening: make(chan struct{}, 1)}
		}
		for _, s := range p.slots.All {
			p.free <- s
		}
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
	if p.free != nil {
		return p.roundTripAlone(request)
	}
	s := p.slots.Next()
	for {
		opened, err := s.connection(request.Context(), p.connector)
		if err != nil {
			return failRequest(request, err)
		}
		response, err := opened.RoundTrip(request)
		if err == nil || err.Error() != errUnusable {
			return response, err
		}
		s.drop(opened) // its running requests go on
		if request, err = unsent(request); err != nil {
			return nil, err
		}
	}
}

// errUnusable is the text of net/http's error for an HTTP/2 request that was not begun, since
// the server had ended the connection with GOAWAY.
const errUnusable = "http2: client conn not usable"

// maxUnsent limits the connections that end before a request is written on them.
const maxUnsent = 3

// unsent returns a request whose body can be read again.
func unsent(request *http.Request) (*http.Request, error) {
	if request.GetBody == nil {
		return request, nil
	}
	body, err := request.GetBody()
	if err != nil {
		return nil, fmt.Errorf("read the request's body again: %w", err)
	}
	once := *request
	once.Body = body
	return &once, nil
}

// roundTripAlone sends a request on a connection that carries no other one meanwhile.
func (p *pool) roundTripAlone(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	var s *slot
	select {
	case s = <-p.free:
	default:
		select {
		case s = <-p.free:
		case s = <-p.spare:
		case <-ctx.Done():
			return failRequest(request, fmt.Errorf("wait for a connection: %w", p.waitError(ctx.Err())))
		}
	}
	var opened connection
	var response *http.Response
	var err error
	for attempt := 0; ; attempt++ {
		if opened, err = s.connection(ctx, p.connector); err != nil {
			p.free <- s
			return failRequest(request, err)
		}
		var wrote atomic.Bool // net/http may write while RoundTrip returns
		response, err = opened.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})))
		// net/http ends a connection that it cannot use again only after its last answer.
		if err == nil || wrote.Load() || attempt == maxUnsent || ctx.Err() != nil {
			break
		}
		s.drop(opened)
		_ = opened.Close()
		if request, err = unsent(request); err != nil {
			p.free <- s
			return nil, err
		}
	}
	release := func(whole bool) {
		if !whole {
			s.drop(opened)
			_ = opened.Close()
		}
		p.free <- s
	}
	switch {
	case err != nil:
		release(false)
		return nil, err
	case response.Body == http.NoBody:
		release(!response.Close)
	default:
		response.Body = &closingBody{ReadCloser: response.Body, end: func(whole bool) { release(whole && !response.Close) }}
	}
	return response, nil
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

// drop makes the slot open another connection for the next request.
func (s *slot) drop(ended connection) {
	if current := s.current.Load(); current != nil && *current == ended {
		s.current.CompareAndSwap(current, nil)
	}
}
