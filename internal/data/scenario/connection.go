package scenario

import (
	"fmt"
	"strconv"
	"strings"
)

// ConnectionMode says how the clients of one trial get their connections.
type ConnectionMode string

// The connection modes.
const (
	Shared    ConnectionMode = "shared"     // one connection for all clients
	PerWorker ConnectionMode = "per-worker" // one connection for each client
	Pool      ConnectionMode = "pool"       // N connections for all clients
	New       ConnectionMode = "new"        // one for each request, with a full handshake
	Resumed   ConnectionMode = "resumed"    // one for each request, resuming a TLS session
	Early     ConnectionMode = "0rtt"       // the same, with the request in QUIC's first flight
	// Auto means up to N connections for all clients, as many as the client itself finds useful.
	// No scenario names it: a stack's option selects it.
	Auto ConnectionMode = "auto"
)

// The options of every variant that the load engine carries out.
const (
	ConnectionOption = "conn"     // the connection mode
	InFlightOption   = "inflight" // how many calls may be in flight
	ClientOption     = "client"   // whether clients keep clear of the machine's limits
)

// NaiveClient is the value of ClientOption for clients that ignore the machine's limits.
const NaiveClient = "naive"

// ConnectionModes lists the connection modes as scenarios write them.
func ConnectionModes() []string {
	return []string{string(Shared), string(PerWorker), string(Pool), "pool:4", string(New), string(Resumed), string(Early)}
}

// PerRequest reports whether every request opens a connection of its own.
func (m ConnectionMode) PerRequest() bool { return m == New || m == Resumed || m == Early }

// A Connection is a connection mode and its size. The zero value stands for the
// stack's own default.
type Connection struct {
	Mode ConnectionMode
	// Size is the N of pool:N and auto:N. 0 means one per client: an
	// HTTP/1.1 connection pool grows to that size.
	Size int
}

// ParseConnection reads `shared`, `per-worker`, `pool`, `pool:N`, `new`,
// `resumed` or `0rtt`, and the `auto:N` of records.
func ParseConnection(text string) (Connection, error) {
	mode, size, sized := strings.Cut(text, ":")
	c := Connection{Mode: ConnectionMode(mode)}
	switch {
	case (c.Mode == Pool || c.Mode == Auto) && sized:
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return Connection{}, fmt.Errorf("connection %q: %s:N takes a whole number from 1, as in %s:4", text, mode, mode)
		}
		c.Size = n
		return c, nil
	case !sized && (c.Mode == Shared || c.Mode == PerWorker || c.Mode == Pool || c.Mode.PerRequest()):
		return c, nil
	default:
		return Connection{}, fmt.Errorf("connection %q: want shared, per-worker, pool (one a client), pool:N, new, resumed or 0rtt", text)
	}
}

// String writes the connection mode as ParseConnection reads it.
func (c Connection) String() string {
	if c.Size > 0 {
		return string(c.Mode) + ":" + strconv.Itoa(c.Size)
	}
	return string(c.Mode)
}

// Want returns the number of connections that this mode means for a number of clients. If
// every request has its own, it returns the most that may be open at once.
func (c Connection) Want(clients int) int {
	switch {
	case c.Mode == Shared:
		return 1
	case c.Size > 0:
		return c.Size
	default:
		return clients
	}
}

// MarshalText writes the mode as String does.
func (c Connection) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the text of MarshalText; an empty text is the stack's default.
func (c *Connection) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*c = Connection{}
		return nil
	}
	return parseInto(c, text, ParseConnection)
}
