package httpwire

import (
	"time"

	"github.com/quic-go/quic-go"
)

// HTTP/3 is quic-go's, with as little around it as the lifecycles need: its
// http3.Transport holds one connection to a host and decides itself when to dial
// the next, so connections are made here and handed to it one by one.
//
// All connections of a client go through one UDP socket, told apart by their
// connection IDs: a new connection takes no port.

// Settings that are not quic-go's defaults. H3Settings gives the reasons.
const (
	// streamsInFlight is what a client may have open on one connection.
	streamsInFlight = 10_000
	// handshakePatience is how long a client waits for the first sign of a server.
	handshakePatience = 30 * time.Second
	// keepAlive is the period of http3's own default configuration.
	keepAlive = 10 * time.Second
	// maxHeaderBytes bounds what a stranger may send before a handler runs.
	h3HeaderBytes = 64 << 10
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
