package httpwire

import (
	"fmt"
	"time"

	"github.com/quic-go/quic-go"
)

// HTTP/3 is quic-go's, with as little around it as the lifecycles need: its
// http3.Transport holds one connection to a host and decides itself when to dial
// the next, so connections are made here and handed to it one by one.
//
// All connections of a client go through one UDP socket, told apart by their
// connection IDs: a new connection takes no port.

// Settings that are not quic-go's defaults. HTTP3Settings gives the
// reasons.
const (
	// streamsInFlight is what a client may have open on one connection.
	streamsInFlight = 10_000
	// handshakePatience is how long a client waits for the first sign of a server.
	handshakePatience = 30 * time.Second
	// keepAlive is the period of http3's own default configuration.
	keepAlive = 10 * time.Second
)

func h3ClientConfig(lifecycle Lifecycle) *quic.Config {
	config := &quic.Config{
		MaxIncomingStreams:   -1, // a server opens none (RFC 9114, section 6.1)
		HandshakeIdleTimeout: handshakePatience,
	}
	if lifecycle == Kept {
		config.KeepAlivePeriod = keepAlive
	} else {
		config.DisablePathMTUDiscovery = true
	}
	return config
}

func h3ServerConfig() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams: streamsInFlight,
		Allow0RTT:          true,
	}
}

// Setting is a value that is not a library's default. It has the form of
// stack.Setting.
type Setting struct {
	Side, Name, Value, Default, Why string
}

// HTTP3Settings lists what is not quic-go's default, with the reasons.
func HTTP3Settings() []Setting {
	return []Setting{
		{"server", "quic.Config.MaxIncomingStreams", fmt.Sprint(streamsInFlight), "100", "one shared connection carries a whole trial's requests: at 100 the others would wait for a stream, and the wait be measured as the wire's latency"},
		{"client", "quic.Config.HandshakeIdleTimeout", handshakePatience.String(), "5s", "a server that admits few handshakes at a time answers late; the call's own deadline bounds the wait"},
		{"client", "quic.Config.DisablePathMTUDiscovery", "true on connections of one request", "false", "a connection that is closed at once has no use for what its probes find"},
		{"client", "UDP socket", "one for all connections, connected", "one a host, not connected", "a new connection takes no port, and hears at once when nobody listens"},
	}
}
