package httpwire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// peerSpeaksTLS is what a client without TLS met.
type peerSpeaksTLS struct{ cause error }

func (e *peerSpeaksTLS) Error() string {
	return fmt.Sprintf("the server speaks TLS, and this client does not: %v", e.cause)
}
func (e *peerSpeaksTLS) Unwrap() error { return e.cause }

// FailureClass is how package failure names it.
func (*peerSpeaksTLS) FailureClass() string { return "plaintext-peer" }

// explain finds out why a connection was not to be had, where net/http does not
// tell: a server that speaks TLS hangs up on cleartext HTTP/2 without a word, or
// with a word that is lost in net/http. To HTTP/1.1 it has an answer.
func (p ClientPlan) explain(ctx context.Context, err error) error {
	if p.Version != HTTP2 || p.TLS != nil || ctx.Err() != nil {
		return err
	}
	conn, failed := p.Dialer.DialContext(ctx, "tcp", p.Address)
	if failed != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	const most = 1 << 10
	_, _ = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: "+p.Address+"\r\nConnection: close\r\n\r\n")
	answer, _ := io.ReadAll(io.LimitReader(conn, most)) // up to where it was cut off
	alert := []byte{21, 3}                              // a record of TLS (RFC 8446, section 5.1)
	if bytes.HasPrefix(answer, alert) || bytes.Contains(answer, []byte("to an HTTPS server")) {
		return &peerSpeaksTLS{err}
	}
	return err
}

// onlyHTTP2 answers HTTP/1.1 in cleartext, which net/http has to read if it is
// to tell a client that speaks TLS of its mistake, with the way to ask.
func onlyHTTP2(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		http.Error(w, "This server speaks HTTP/2, and no HTTP/1.1: try curl --http2-prior-knowledge", http.StatusHTTPVersionNotSupported)
	})
}
