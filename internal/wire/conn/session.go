package conn

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
)

// SessionCache holds the newest TLS session of one server, and signals when it has
// the first one.
type SessionCache struct {
	filled chan struct{}
	first  sync.Once

	mu     sync.Mutex
	newest *tls.ClientSessionState
}

// NewSessionCache makes an empty cache.
func NewSessionCache() *SessionCache { return &SessionCache{filled: make(chan struct{})} }

// Await waits for the first session. The server sends it after the handshake (RFC 8446,
// section 4.6.1), so the connection must stay open; life ends with the connection. Await
// gives up after HandshakeTimeout.
func (s *SessionCache) Await(ctx, life context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	var err error
	select {
	case <-s.filled:
		return nil
	case <-life.Done():
		err = context.Cause(life)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if _, has := s.Get(""); has { // both happened
		return nil
	}
	return fmt.Errorf("the server sent no TLS session ticket, so no session can be resumed: %w", err)
}

// Get implements tls.ClientSessionCache.
func (s *SessionCache) Get(string) (*tls.ClientSessionState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.newest != nil
}

// Put implements tls.ClientSessionCache. A nil session empties the cache.
func (s *SessionCache) Put(_ string, session *tls.ClientSessionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = session
	if session != nil {
		s.first.Do(func() { close(s.filled) })
	}
}

// Prime puts a TLS session into the configuration's cache. It opens a connection and
// closes it when the server's ticket has arrived. Later connections resume the session,
// and store its newer tickets.
func (o *Opener) Prime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	sessions := NewSessionCache()
	o.TLS.ClientSessionCache = sessions
	conn, err := o.Open(ctx)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	defer func() { _ = conn.Close() }()
	life, end := context.WithCancelCause(context.Background())
	reading.Go(func() { // ends with the connection
		_, err := conn.Read(make([]byte, 1)) // crypto/tls handles a ticket only during Read
		end(err)
	})
	return sessions.Await(ctx, life)
}
