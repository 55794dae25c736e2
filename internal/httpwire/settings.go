package httpwire

import "fmt"

// TCPSettings lists what is not net/http's default in HTTP/1.1 or HTTP/2, with
// the reasons.
func TCPSettings(v Version) []Setting {
	settings := []Setting{
		{"client", "http.Transport.DisableCompression", "true", "false", "a body must cost what it weighs"},
		{"server", "http.Server.ReadHeaderTimeout", readHeaderTimeout.String(), "none", "it bounds TLS handshakes too: a mute peer must not stay for ever"},
		{"server", "http.Server.MaxHeaderBytes", fmt.Sprint(maxHeaderBytes), "1048576", "what a stranger may cost before a handler runs"},
	}
	if v == HTTP1 {
		return append(settings,
			Setting{"client", "http.Transport.MaxConnsPerHost", "as many as the mode allows", "no limit", "further calls wait, and connections are as many as were asked for"},
			Setting{"client", "http.Transport.MaxIdleConnsPerHost", "the same", "2", "a connection that was opened is kept"},
		)
	}
	return append(settings,
		Setting{"server", "http.HTTP2Config.MaxConcurrentStreams", fmt.Sprint(maxStreams), "250", "one shared connection carries a whole trial's requests: at 250 the others would wait for a stream, and the wait be measured as the wire's latency"},
		Setting{"client", "http.ClientConn", "one for each connection asked for, in turns", "http.Transport's pool, which adds one when streams run out", "connections are as many as were asked for"},
	)
}
