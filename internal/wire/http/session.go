package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
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

// Filled returns a channel that is closed when the cache has its first session.
func (s *SessionCache) Filled() <-chan struct{} { return s.filled }

// await waits for the first session. The server sends it after the handshake (RFC
// 8446, section 4.6.1), so the connection must stay open; ended is closed if it does
// not.
func (s *SessionCache) await(ctx context.Context, ended <-chan struct{}) error {
	err := errors.New("the connection ended")
	select {
	case <-s.filled:
		return nil
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
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

// quicSessions returns a copy of the session to each caller: quic-go modifies it.
type quicSessions struct{ *SessionCache }

// Get implements tls.ClientSessionCache.
func (s quicSessions) Get(key string) (*tls.ClientSessionState, bool) {
	newest, _ := s.SessionCache.Get(key)
	ticket, state, err := newest.ResumptionState()
	if err != nil || state == nil {
		return nil, false
	}
	own := *state
	session, err := tls.NewResumptionState(ticket, &own)
	return session, err == nil
}
