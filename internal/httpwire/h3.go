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

// Setting is a value that is not a library's default. It has the form of
// stack.Setting.
type Setting struct {
	Side, Name, Value, Default, Why string
}

// HTTP3Settings lists what is not quic-go's default, with the reasons.
func HTTP3Settings() []Setting {
	return []Setting{
		{"server", "quic.Config.MaxIncomingStreams", fmt.Sprint(streamsInFlight), "100", "one shared connection carries a whole trial's requests: at 100 the others would wait for a stream, and the wait be measured as the wire's latency"},
		{"client", "quic.Config.HandshakeIdleTimeout", clientPatience.String(), "5s", "in a storm of new connections servers answer late; the call's own deadline bounds the wait, as with TCP"},
		{"server", "quic.Config.HandshakeIdleTimeout", serverPatience.String(), "5s", "in a storm of new connections clients answer late; as long as with TCP"},
		{"client", "a handshake that its call has given up", fmt.Sprintf("goes on for at most %v, to be closed properly", farewell), "is dropped without a word", "the server would keep its half, and the half's place among the handshakes it has room for, until its own patience ends; TCP's is told by the kernel"},
		{"both", "quic.Transport.ConnectionIDLength", fmt.Sprint(connectionIDBytes), "4", "of the thousands of IDs that a storm of new connections uses on one socket, two of 4 bytes were sometimes the same, and a call hung"},
		{"server", "quic.Config.Allow0RTT", "true", "false", "0rtt is a connection mode"},
		{"client", "UDP socket", "one for all connections, connected", "one a host, not connected", "a new connection takes no port, and hears at once when nobody listens"},
		{"server", "new connections", fmt.Sprintf("%d on their way to be accepted, or as many as handshakes says; further ones wait", acceptQueue), fmt.Sprintf("no bound, and beyond %d that wait to be accepted they are refused", acceptQueue), "in a storm of new connections a refusal would be measured as the wire's failure"},
		{"server", "http3.Server.MaxHeaderBytes", fmt.Sprint(maxHeaderBytes), "1048576", "what a stranger may cost before a handler runs"},
		{"client", "http3.Transport.DisableCompression", "true", "false", "a body must cost what it weighs"},
		{"client", "http3.Transport", "one connection for each asked for, in turns; or one a request", "one connection a host", "connections are as many as were asked for"},
	}
}
