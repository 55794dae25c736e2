package httpwire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// singleUse opens a connection for every request, and closes it with the
// response's body.
type singleUse struct {
	plan      ClientPlan
	transport *http.Transport
	life      context.Context // ends with Close
	endLife   context.CancelFunc

	mu   sync.Mutex
	open map[*http.ClientConn]struct{} // nil once closed
}

func newSingleUse(ctx context.Context, plan ClientPlan) (*singleUse, error) {
	var sessions *SessionCache
	if plan.Lifecycle == Resumed {
		sessions = NewSessionCache()
		plan.TLS.ClientSessionCache = sessions
	}
	s := &singleUse{plan: plan, transport: plan.newTransport(), open: map[*http.ClientConn]struct{}{}}
	s.life, s.endLife = context.WithCancel(context.Background())
	if err := s.checkServer(ctx, sessions); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// checkServer makes one request to the server, and waits for the session that
// later connections resume. The ticket comes after the handshake (RFC 8446,
// section 4.6.1), so the connection stays open until it arrives.
func (s *singleUse) checkServer(ctx context.Context, sessions *SessionCache) error {
	response, err := s.plan.ping(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if sessions == nil {
		return nil
	}
	select {
	case <-sessions.Filled():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server sent no TLS session ticket, so no session can be resumed: %w", ctx.Err())
	}
}

// RoundTrip implements http.RoundTripper.
func (s *singleUse) RoundTrip(request *http.Request) (*http.Response, error) {
	begin := time.Now()
	ctx := request.Context()
	conn, err := s.dial(ctx)
	if err != nil {
		return failRequest(request, err)
	}
	// A caller may cancel its context instead of closing the body.
	stop := context.AfterFunc(ctx, func() { s.closeConn(conn) })
	response, err := conn.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { s.plan.Dialer.FirstByte(time.Since(begin)) },
	})))
	if err != nil {
		stop()
		s.closeConn(conn)
		return nil, err
	}
	response.Body = &closingBody{ReadCloser: response.Body, end: func() { stop(); s.closeConn(conn) }}
	return response, nil
}

func (s *singleUse) dial(ctx context.Context) (*http.ClientConn, error) {
	conn, err := s.plan.dial(ctx, s.life, s.transport)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		_ = conn.Close()
		return nil, errClosed
	}
	s.open[conn] = struct{}{}
	return conn, nil
}

// closeConn closes a connection. Further calls do nothing.
func (s *singleUse) closeConn(conn *http.ClientConn) {
	s.mu.Lock()
	delete(s.open, conn)
	s.mu.Unlock()
	_ = conn.Close()
}

// Close implements carrier.
func (s *singleUse) Close() error {
	s.endLife()
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for conn := range open {
		_ = conn.Close()
	}
	return nil
}

// closingBody closes the connection with the body.
type closingBody struct {
	io.ReadCloser
	end func()
}

func (b *closingBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
