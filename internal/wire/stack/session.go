package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"

	"wirelab.dev/internal/wire/http"
)

// Prime puts a TLS session into the configuration's cache. It makes a connection to
// the address and closes it when the server's ticket has arrived (RFC 8446, section
// 4.6.1). Later connections with the configuration resume the session, and store
// its newer tickets.
func Prime(ctx context.Context, dialer *Dialer, address string, config *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	sessions := httpwire.NewSessionCache()
	config.ClientSessionCache = sessions
	conn, err := dialer.DialTLS(ctx, address, config)
	if err != nil {
		return err
	}
	// crypto/tls handles a ticket only during Read.
	var reading sync.WaitGroup
	defer reading.Wait()
	defer func() { _ = conn.Close() }()
	ended := make(chan error, 1)
	reading.Go(func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	})
	select {
	case <-sessions.Filled():
		return nil
	case err := <-ended:
		if _, has := sessions.Get(""); has {
			return nil
		}
		return errors.Join(errNoSession, err)
	case <-ctx.Done():
		return errors.Join(errNoSession, ctx.Err())
	}
}

var errNoSession = errors.New("the server gave no TLS session to resume")
