package httpwire

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
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

// RoundTrip implements http.RoundTripper.
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
