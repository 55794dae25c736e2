package httpwire

import (
	"crypto/tls"
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
