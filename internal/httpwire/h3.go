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

// Settings that are not quic-go's defaults. settings.go gives the reasons.
const (
	// streamsInFlight is what a client may have open on one connection.
	streamsInFlight = 10_000
	// How long an end waits for a sign of the other while they shake hands. A
	// server's patience is that with TCP; a client's is there for calls that
	// have no deadline.
	serverPatience = readHeaderTimeout
	clientPatience = 30 * time.Second
	// connectionIDBytes is the length of what a socket tells its connections
	// apart by. quic-go does not look whether an ID is taken: of two connections
	// with the same, one never hears an answer. With 4 bytes a storm of
	// connections, each with four IDs that outlast it, came to that in one of
	// some thirty trials. A byte more, and the gate could take a server's ID for
	// one that a client has invented.
	connectionIDBytes = minInventedBytes - 1
	// keepAlive is the period of http3's own default configuration.
	keepAlive = 10 * time.Second
)

// What was measured to gain nothing, and therefore is the default: several UDP
// sockets, larger first packets, and no path MTU discovery on connections of one
// request (0.64 of a bare TLS loop over TCP by CPU time, each).

func h3ClientConfig(lifecycle Lifecycle) *quic.Config {
	config := &quic.Config{
		MaxIncomingStreams:   -1, // a server opens none (RFC 9114, section 6.1)
		HandshakeIdleTimeout: clientPatience,
	}
	if lifecycle == Kept {
		config.KeepAlivePeriod = keepAlive
	}
	return config
}

func h3ServerConfig() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams:   streamsInFlight,
		HandshakeIdleTimeout: serverPatience,
		Allow0RTT:            true,
	}
}
