package httpwire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
)

// explainDialError replaces the error of cleartext HTTP/2 to a TLS server, which
// net/http reports only as a closed connection. It sends an HTTP/1.1 request,
// which such a server answers with a TLS alert or an error message.
func (p ClientPlan) explainDialError(ctx context.Context, err error) error {
	if p.Version != HTTP2 || p.TLS != nil || ctx.Err() != nil {
		return err
	}
	opener := conn.Opener{Dialer: p.Dialer, Network: p.Network, Address: p.Address}
	opened, failed := opener.Open(ctx)
	if failed != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	defer context.AfterFunc(ctx, func() { _ = opened.Close() })()
	const maxBytes = 1 << 10
	_, _ = io.WriteString(opened, "OPTIONS * HTTP/1.1\r\nHost: "+p.Host()+"\r\nConnection: close\r\n\r\n")
	answer, failed := io.ReadAll(io.LimitReader(opened, maxBytes)) // a partial answer is enough
	if failure.Of(failed) == failure.PlaintextPeer || bytes.Contains(answer, []byte("to an HTTPS server")) {
		return failure.As(failure.PlaintextPeer, fmt.Errorf("the server speaks TLS, but this client uses cleartext: %w", err))
	}
	return err
}

// refuseHTTP1 answers HTTP/1.1 requests with an error. The server must accept
// HTTP/1.1 because net/http explains the mistake to TLS clients only then.
func refuseHTTP1(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		http.Error(w, "This server speaks only HTTP/2, and the request used HTTP/1.1: try curl --http2-prior-knowledge", http.StatusHTTPVersionNotSupported)
	})
}
