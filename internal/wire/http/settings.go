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

// Settings lists the settings of both ends that differ from the libraries' defaults. It compares
// the configuration structs of the ends with default structs.
func Settings(server ServerPlan, client ClientPlan) []tuning.Setting {
	settings := tuning.Differences(tuning.Client, "http.Client", newHTTPClient(nil), &http.Client{}, tuning.Reasons{
		"CheckRedirect": {Value: "follows no redirect", Default: "up to 10", Why: "a redirect would turn a POST into a GET of another URL"},
	})
	if server.Version == HTTP3 {
		return append(settings, h3Settings(server, client)...)
	}
	made := newTCPServer(server)
	settings = append(settings, tuning.Differences(tuning.Server, "http.Server", &made.http, &http.Server{}, tuning.Reasons{
		"Handler": tuning.NotASetting, "ConnContext": tuning.NotASetting,
		"HTTP2":             tuning.NotASetting, // its fields are listed separately
		"Protocols":         {Default: "HTTP/1.1, and HTTP/2 over TLS", Why: "a variant speaks one version and never falls back; a cleartext HTTP/2 server answers HTTP/1.1 requests with an error"},
		"ReadHeaderTimeout": {Default: "none", Why: "the timeout also limits TLS handshakes: a silent peer must not keep a connection open for ever"},
		"MaxHeaderBytes":    {Default: fmt.Sprint(http.DefaultMaxHeaderBytes), Why: clientCostReason},
		"ErrorLog":          {Value: "to standard error, bounded", Default: "to standard error", Why: "logging many failed handshakes must not cost more than serving them"},
		"ConnState":         {Value: "counts connections", Default: "none", Why: "Close waits for the connections' goroutines"},
	})...)
	if made.http.HTTP2 != nil {
		settings = append(settings, tuning.Differences(tuning.Server, "http.HTTP2Config", made.http.HTTP2, &http.HTTP2Config{}, tuning.Reasons{
			"MaxConcurrentStreams": {Default: "250", Why: streamsReason},
		})...)
	}
	return append(settings, transportSettings(client)...)
}

const (
	clientCostReason      = "limits what any client can cost before a handler runs"
	streamsReason         = "one shared connection carries all requests of a trial: with fewer streams, requests would wait, and the wait would count as the protocol's latency"
	bodyReason            = "no compression: bodies are sent at their full size"
	connectionCountReason = "wirelab opens exactly as many connections as requested"
	deadlineReason        = "the call's own deadline bounds the wait, as on every stack"
	keepOpenReason        = "wirelab keeps connections open"
	proxyReason           = "a proxy would be measured instead of the server"
	noneValue             = "none"
)

// transportSettings lists the TCP client's settings that differ from http.DefaultTransport's.
func transportSettings(plan ClientPlan) []tuning.Setting {
	used := newTCPClient(plan).transport
	settings := tuning.Differences(tuning.Client, "http.Transport", used, http.DefaultTransport.(*http.Transport), tuning.Reasons{
		"Proxy":                 {Value: noneValue, Default: "the environment's", Why: proxyReason},
		"Protocols":             {Default: "HTTP/1.1, and HTTP/2 over TLS", Why: "a variant speaks one version and never falls back"},
		"ForceAttemptHTTP2":     tuning.NotASetting, // the setting Protocols shows the version
		"DialContext":           {Value: "wirelab's net.Dialer, without a timeout", Default: "net.Dialer with a timeout of 30s and a keepalive of 30s", Why: "connections of all stacks are opened, counted and timed alike; " + deadlineReason},
		"DialTLSContext":        {Value: "wirelab's", Default: noneValue, Why: "handshakes of all stacks are counted and timed alike"},
		"DisableCompression":    {Why: bodyReason},
		"MaxConnsPerHost":       {Default: "no limit", Why: "further calls wait for a connection; " + connectionCountReason},
		"MaxIdleConnsPerHost":   {Default: fmt.Sprint(http.DefaultMaxIdleConnsPerHost), Why: keepOpenReason},
		"MaxIdleConns":          {Value: "no limit", Why: keepOpenReason},
		"IdleConnTimeout":       {Value: noneValue, Why: keepOpenReason},
		"TLSHandshakeTimeout":   {Value: noneValue, Why: deadlineReason},
		"ExpectContinueTimeout": {Value: noneValue, Why: "no request expects 100-continue"},
	})
	switch {
	case plan.Lifecycle != conn.Kept:
		settings = append(settings, tuning.Setting{
			Side: tuning.Client, Name: "http.ClientConn", Value: "one per request, closed with its answer",
			Default: "http.Transport's pool", Why: "the connection mode is one connection per request",
		})
	case plan.Version == HTTP2:
		settings = append(settings, tuning.Setting{
			Side: tuning.Client, Name: "http.ClientConn", Value: fmt.Sprintf("%d, in turns", max(plan.Connections, 1)),
			Default: "http.Transport's pool, which adds one when streams run out", Why: connectionCountReason,
		})
	}
	return settings
}

var http3Client = &quic.Config{MaxIncomingStreams: -1, KeepAlivePeriod: keepAlive}

var http3Server = &quic.Config{Allow0RTT: true}

const quicConfig, quicTransport = "quic.Config", "quic.Transport"

func h3Settings(server ServerPlan, client ClientPlan) []tuning.Setting {
	settings := tuning.Differences(tuning.Server, quicConfig, h3ServerConfig(), http3Server, tuning.Reasons{
		"MaxIncomingStreams":   {Default: "100", Why: streamsReason},
		"HandshakeIdleTimeout": {Default: "5s", Why: "clients answer late when many connect at once; TCP has the same limit"},
	})
	settings = append(settings, tuning.Differences(tuning.Client, quicConfig, h3ClientConfig(client.Lifecycle), http3Client, tuning.Reasons{
		"HandshakeIdleTimeout": {Default: "5s", Why: "servers answer late when many clients connect at once; the call's deadline limits the wait, as with TCP"},
		"KeepAlivePeriod":      {Value: noneValue, Why: "a connection lasts one request"},
	})...)
	settings = append(settings, tuning.Differences(tuning.Server, "http3.Server", newHTTP3Server(server), &http3.Server{}, tuning.Reasons{
		"Handler": tuning.NotASetting, "ConnContext": tuning.NotASetting,
		"Logger":         tuning.NotASetting, // the default logger also writes nothing
		"MaxHeaderBytes": {Default: fmt.Sprint(http.DefaultMaxHeaderBytes), Why: clientCostReason},
	})...)
	settings = append(settings, tuning.Differences(tuning.Client, "http3.Transport", newHTTP3Transport(), &http3.Transport{}, tuning.Reasons{
		"DisableCompression":     {Why: bodyReason},
		"MaxResponseHeaderBytes": {Default: fmt.Sprint(10 << 20), Why: clientCostReason},
	})...)
	connections := fmt.Sprintf("%d, in turns", max(client.Connections, 1))
	if client.Lifecycle != conn.Kept {
		connections = "one per request, closed with its answer"
	}
	for _, end := range []string{tuning.Server, tuning.Client} {
		settings = append(settings, tuning.Setting{Side: end, Name: quicTransport + ".ConnectionIDLength", Value: fmt.Sprint(quicsocket.ConnectionIDBytes), Default: "4", Why: "among thousands of new connections on one socket, two IDs of 4 bytes were sometimes equal, and a call hung"})
	}
	return append(settings,
		tuning.Setting{Side: tuning.Server, Name: quicTransport + ", new connections", Value: fmt.Sprintf("at most %d wait to be accepted; the server delays the others", server.admission().MaxUnaccepted()), Default: fmt.Sprintf("no limit on handshakes; if %d wait to be accepted, the server refuses others", quicsocket.AcceptQueue), Why: "with many new connections at once, refusals would count as failures of the protocol"},
		tuning.Setting{Side: tuning.Client, Name: quicTransport + ".Conn", Value: "one connected UDP socket for all connections", Default: "one per host, not connected", Why: "a new connection uses no new port, and fails at once if no server listens"},
		tuning.Setting{Side: tuning.Client, Name: "handshake of a cancelled call", Value: fmt.Sprintf("continues for at most %v, then the connection is closed", closeGrace), Default: "dropped without a packet to the server", Why: "otherwise the server would keep the connection until the handshake timeout; with TCP the kernel tells the server"},
		tuning.Setting{Side: tuning.Client, Name: "http3.Transport, connections", Value: connections, Default: "one per host", Why: connectionCountReason},
	)
}
