package httpwire

import (
	"time"

	"github.com/quic-go/quic-go"

	"wirelab.dev/internal/wire/conn"
)

// HTTP/3 uses quic-go. Its http3.Transport holds one connection to a host and
// dials the next one itself, so this package dials and gives it one connection
// at a time.
//
// All connections of a client share one UDP socket. Their connection IDs distinguish
// them, so a new connection takes no port.

// Settings that are not quic-go's defaults. settings.go gives the reasons.
const (
	// streamsInFlight is the limit of open streams on one connection.
	streamsInFlight = 10_000
	// clientHandshakeTimeout is the idle timeout of handshakes for calls without a
	// deadline.
	clientHandshakeTimeout = 30 * time.Second
	// keepAlive is the period in http3's default configuration.
	keepAlive = 10 * time.Second
)

// serverHandshakeTimeout is the idle timeout of handshakes, as with TCP.
var serverHandshakeTimeout = readHeaderTimeout // tests set more, so that a busy machine does not break them

// maxHandshakeTime limits the time for which a new connection keeps others waiting. It is
// shorter than the timeout of handshakes, so that lost connections do not hold up a burst
// of new ones.
var maxHandshakeTime = 5 * time.Second // tests set more, too

// Measured without a gain, so left at the default: several UDP sockets, larger
// first packets, and no path MTU discovery on connections of one request (0.64 of
// a bare TLS loop over TCP by CPU time, each).

func h3ClientConfig(lifecycle conn.Lifecycle) *quic.Config {
	config := &quic.Config{
		MaxIncomingStreams:   -1, // a server opens none (RFC 9114, section 6.1)
		HandshakeIdleTimeout: clientHandshakeTimeout,
	}
	if lifecycle == conn.Kept {
		config.KeepAlivePeriod = keepAlive
	}
	return config
}

func h3ServerConfig() *quic.Config {
	return &quic.Config{
		MaxIncomingStreams:   streamsInFlight,
		HandshakeIdleTimeout: serverHandshakeTimeout,
		Allow0RTT:            true,
	}
}
