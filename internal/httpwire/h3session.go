package httpwire

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
)

// obtainSession makes a connection for the sake of its session ticket, which
// comes after the handshake (RFC 8446, section 4.6.1).
func (c *h3Client) obtainSession(ctx context.Context) error {
	cache := &sessionCache{filled: make(chan struct{})}
	c.tls.ClientSessionCache = cache
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	select {
	case <-cache.filled:
		return nil
	case <-conn.quic.Context().Done():
		return fmt.Errorf("wait for a session ticket: %w", context.Cause(conn.quic.Context()))
	case <-ctx.Done():
		return fmt.Errorf("wait for a session ticket: %w", ctx.Err())
	}
}

// sessionCache holds the newest session of the one server, and tells when it
// has the first.
type sessionCache struct {
	filled chan struct{}
	first  sync.Once

	mu     sync.Mutex
	newest *tls.ClientSessionState
}

// Get implements tls.ClientSessionCache. Each caller has a state of its own:
// quic-go writes to it whether it will send early data.
func (s *sessionCache) Get(string) (*tls.ClientSessionState, bool) {
	s.mu.Lock()
	newest := s.newest
	s.mu.Unlock()
	ticket, state, err := newest.ResumptionState()
	if err != nil || state == nil {
		return nil, false
	}
	own := *state
	session, err := tls.NewResumptionState(ticket, &own)
	return session, err == nil
}

// Put implements tls.ClientSessionCache.
func (s *sessionCache) Put(_ string, session *tls.ClientSessionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = session
	if session != nil {
		s.first.Do(func() { close(s.filled) })
	}
}
