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

// singles opens a connection for every request, and closes it when the answer
// has been read.
type singles struct {
	plan      ClientPlan
	transport *http.Transport
	life      context.Context // ends with Close
	endLife   context.CancelFunc

	mu   sync.Mutex
	open map[*http.ClientConn]struct{} // nil once closed
}

func newSingles(ctx context.Context, plan ClientPlan) (*singles, error) {
	var sessions *SessionCache
	if plan.Lifecycle == Resumed {
		sessions = NewSessionCache()
		plan.TLS.ClientSessionCache = sessions
	}
	s := &singles{plan: plan, transport: plan.newTransport(), open: map[*http.ClientConn]struct{}{}}
	s.life, s.endLife = context.WithCancel(context.Background())
	if err := s.try(ctx, sessions); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// try sees whether there is a server, and gets the session that is to be
// resumed. A ticket comes behind the handshake (RFC 8446, section 4.6.1), so
// that the connection is read from until it is there.
func (s *singles) try(ctx context.Context, sessions *SessionCache) error {
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
		return fmt.Errorf("the server sent no ticket for a TLS session: %w", ctx.Err())
	}
}

// RoundTrip implements http.RoundTripper.
func (s *singles) RoundTrip(request *http.Request) (*http.Response, error) {
	begin := time.Now()
	ctx := request.Context()
	conn, err := s.dial(ctx)
	if err != nil {
		return giveUp(request, err)
	}
	// A caller may leave an answer unread and end its context.
	detach := context.AfterFunc(ctx, func() { s.end(conn) })
	response, err := conn.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { s.plan.Dialer.FirstByte(time.Since(begin)) },
	})))
	if err != nil {
		detach()
		s.end(conn)
		return nil, err
	}
	response.Body = &soleBody{ReadCloser: response.Body, end: func() { detach(); s.end(conn) }}
	return response, nil
}

func (s *singles) dial(ctx context.Context) (*http.ClientConn, error) {
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

// end closes a connection. It may be called again.
func (s *singles) end(conn *http.ClientConn) {
	s.mu.Lock()
	delete(s.open, conn)
	s.mu.Unlock()
	_ = conn.Close()
}

// Close implements carrier.
func (s *singles) Close() error {
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

// soleBody is that of the one answer of a connection.
type soleBody struct {
	io.ReadCloser
	end func()
}

func (b *soleBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
