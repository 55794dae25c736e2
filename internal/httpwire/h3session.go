package httpwire

import (
	"context"
	"crypto/tls"
	"fmt"
)

// obtainSession opens a connection to get a session ticket, which comes after the
// handshake (RFC 8446, section 4.6.1).
func (c *h3Client) obtainSession(ctx context.Context) error {
	cache := NewSessionCache()
	c.tls.ClientSessionCache = quicSessions{cache}
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	select {
	case <-cache.Filled():
		return nil
	case <-conn.quic.Context().Done():
		return fmt.Errorf("wait for a session ticket: %w", context.Cause(conn.quic.Context()))
	case <-ctx.Done():
		return fmt.Errorf("wait for a session ticket: %w", ctx.Err())
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
