package httpwire

import (
	"fmt"
	"net/http"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http/quicsocket"
)

// Settings lists the settings of both ends that differ from the libraries' defaults, by
// comparing the structs that the ends are made from.
func Settings(server ServerPlan, client ClientPlan) []tuning.Setting {
	settings := tuning.Differences(tuning.Client, "http.Client", newHTTPClient(nil), &http.Client{}, tuning.Reasons{
		"CheckRedirect": {Value: "follows no redirect", Default: "up to 10", Why: "a redirect would turn a POST into a GET elsewhere"},
	})
	if server.Version == HTTP3 {
		return append(settings, h3Settings(server, client)...)
	}
	made := newTCPServer(server)
	settings = append(settings, tuning.Differences(tuning.Server, "http.Server", &made.http, &http.Server{}, tuning.Reasons{
		"Handler": tuning.Unlisted, "ConnContext": tuning.Unlisted,
		"HTTP2":             tuning.Unlisted, // its fields follow
		"Protocols":         {Default: "HTTP/1.1, and HTTP/2 over TLS", Why: "a variant speaks one version and never falls back; beside cleartext HTTP/2, HTTP/1.1 requests get only an error message"},
		"ReadHeaderTimeout": {Default: "none", Why: "it also limits TLS handshakes: a silent peer must not hold a connection for ever"},
		"MaxHeaderBytes":    {Default: fmt.Sprint(http.DefaultMaxHeaderBytes), Why: strangerReason},
		"ErrorLog":          {Value: "to standard error, bounded", Default: "to standard error", Why: "logging many failed handshakes must not cost more than serving them"},
		"ConnState":         {Value: "counts connections", Default: "none", Why: "Close waits for their goroutines"},
	})...)
	if made.http.HTTP2 != nil {
		settings = append(settings, tuning.Differences(tuning.Server, "http.HTTP2Config", made.http.HTTP2, &http.HTTP2Config{}, tuning.Reasons{
			"MaxConcurrentStreams": {Default: "250", Why: streamsReason},
		})...)
	}
	return append(settings, transportSettings(client)...)
}

const (
	strangerReason = "limits what any client can cost before a handler runs"
	streamsReason  = "one shared connection carries all requests of a trial: with fewer streams requests would wait, and the wait would count as latency of the protocol"
	bodyReason     = "no compression: bodies are sent at their full size"
	asManyReason   = "the number of connections is the one asked for"
	deadlineReason = "the call's own deadline bounds the wait, as on every stack"
	keptReason     = "an open connection is kept"
	proxyReason    = "a proxy would be measured instead of the server"
	none           = "none"
)

// transportSettings lists the client's settings over TCP, beside http.DefaultTransport's.
func transportSettings(plan ClientPlan) []tuning.Setting {
	used := newTCPClient(plan).transport
	settings := tuning.Differences(tuning.Client, "http.Transport", used, http.DefaultTransport.(*http.Transport), tuning.Reasons{
		"Proxy":                 {Value: none, Default: "the environment's", Why: proxyReason},
		"Protocols":             {Default: "HTTP/1.1, and HTTP/2 over TLS", Why: "a variant speaks one version and never falls back"},
		"ForceAttemptHTTP2":     tuning.Unlisted, // Protocols says which version
		"DialContext":           {Value: "the laboratory's: net.Dialer without a timeout", Default: "net.Dialer with a timeout of 30s and a keepalive of 30s", Why: "connections of all stacks are opened, counted and timed alike; " + deadlineReason},
		"DialTLSContext":        {Value: "the laboratory's", Default: none, Why: "handshakes of all stacks are counted and timed alike"},
		"DisableCompression":    {Why: bodyReason},
		"MaxConnsPerHost":       {Default: "no limit", Why: "further calls wait, and " + asManyReason},
		"MaxIdleConnsPerHost":   {Default: fmt.Sprint(http.DefaultMaxIdleConnsPerHost), Why: keptReason},
		"MaxIdleConns":          {Value: "no limit", Why: keptReason},
		"IdleConnTimeout":       {Value: none, Why: keptReason},
		"TLSHandshakeTimeout":   {Value: none, Why: deadlineReason},
		"ExpectContinueTimeout": {Value: none, Why: "no request asks for it"},
	})
	switch {
	case plan.Lifecycle != conn.Kept:
		settings = append(settings, tuning.Setting{
			Side: tuning.Client, Name: "http.ClientConn", Value: "one per request, closed with its answer",
			Default: "http.Transport's pool", Why: "the connection mode asks for it",
		})
	case plan.Version == HTTP2:
		settings = append(settings, tuning.Setting{
			Side: tuning.Client, Name: "http.ClientConn", Value: fmt.Sprintf("%d, in turns", max(plan.Connections, 1)),
			Default: "http.Transport's pool, which adds one when streams run out", Why: asManyReason,
		})
	}
	return settings
}

// http3Client is http3.Transport's default configuration of quic-go.
var http3Client = &quic.Config{MaxIncomingStreams: -1, KeepAlivePeriod: keepAlive}

// http3Server is http3.Server's default configuration of quic-go.
var http3Server = &quic.Config{Allow0RTT: true}

const quicConfig, quicTransport = "quic.Config", "quic.Transport"

func h3Settings(server ServerPlan, client ClientPlan) []tuning.Setting {
	settings := tuning.Differences(tuning.Server, quicConfig, h3ServerConfig(), http3Server, tuning.Reasons{
		"MaxIncomingStreams":   {Default: "100", Why: streamsReason},
		"HandshakeIdleTimeout": {Default: "5s", Why: "with many new connections at once clients answer late; the same limit as with TCP"},
	})
	settings = append(settings, tuning.Differences(tuning.Client, quicConfig, h3ClientConfig(client.Lifecycle), http3Client, tuning.Reasons{
		"HandshakeIdleTimeout": {Default: "5s", Why: "with many new connections at once servers answer late; the call's own deadline limits the wait, as with TCP"},
		"KeepAlivePeriod":      {Value: none, Why: "a connection lasts one request"},
	})...)
	settings = append(settings, tuning.Differences(tuning.Server, "http3.Server", newHTTP3Server(server), &http3.Server{}, tuning.Reasons{
		"Handler": tuning.Unlisted, "ConnContext": tuning.Unlisted,
		"Logger":         tuning.Unlisted, // its default does not write either
		"MaxHeaderBytes": {Default: fmt.Sprint(http.DefaultMaxHeaderBytes), Why: strangerReason},
	})...)
	settings = append(settings, tuning.Differences(tuning.Client, "http3.Transport", newHTTP3Transport(), &http3.Transport{}, tuning.Reasons{
		"DisableCompression":     {Why: bodyReason},
		"MaxResponseHeaderBytes": {Default: fmt.Sprint(10 << 20), Why: strangerReason},
	})...)
	connections := fmt.Sprintf("%d, in turns", max(client.Connections, 1))
	if client.Lifecycle != conn.Kept {
		connections = "one per request, closed with its answer"
	}
	for _, end := range []string{tuning.Server, tuning.Client} {
		settings = append(settings, tuning.Setting{Side: end, Name: quicTransport + ".ConnectionIDLength", Value: fmt.Sprint(quicsocket.ConnectionIDBytes), Default: "4", Why: "with thousands of new connections on one socket, two IDs of 4 bytes were sometimes the same, and a call hung"})
	}
	return append(settings,
		tuning.Setting{Side: tuning.Server, Name: quicTransport + ", new connections", Value: fmt.Sprintf("at most %d wait to be accepted; further ones are delayed", server.admission().MaxPending()), Default: fmt.Sprintf("no limit on handshakes; beyond %d that wait to be accepted they are refused", quicsocket.AcceptQueue), Why: "with many new connections at once, refusals would count as failures of the protocol"},
		tuning.Setting{Side: tuning.Client, Name: quicTransport + ".Conn", Value: "one UDP socket for all connections, connected", Default: "one per host, not connected", Why: "a new connection takes no port, and fails at once if no server listens"},
		tuning.Setting{Side: tuning.Client, Name: "handshake of a cancelled call", Value: fmt.Sprintf("continues for at most %v, then the connection is closed", closeGrace), Default: "dropped without a packet to the server", Why: "the server would hold the connection, and its place among the handshakes, until its handshake timeout; with TCP the kernel tells the server"},
		tuning.Setting{Side: tuning.Client, Name: "http3.Transport, connections", Value: connections, Default: "one per host", Why: asManyReason},
	)
}
