package record

import (
	"slices"
	"strings"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/sum"
)

// Connections counts the wanted connections and the opened ones.
type Connections struct {
	Mode   string `json:"mode"`
	Want   int    `json:"want"`
	Opened int64  `json:"opened"`
	Failed int64  `json:"failed"`
	// During counts the connections that were opened inside the window.
	During int64 `json:"during"`

	// The handshakes inside the window, counted from the TLS and QUIC state
	// itself. All are zero on a wire without TLS.
	Full            int64 `json:"full,omitempty"`             // handshakes with a certificate
	Resumed         int64 `json:"resumed,omitempty"`          // handshakes that resumed a session
	Early           int64 `json:"early,omitempty"`            // resumed ones with early data that the server took
	EarlyRefused    int64 `json:"early_refused,omitempty"`    // resumed ones with early data that the server refused
	HandshakeFailed int64 `json:"handshake_failed,omitempty"` // connections that got no further

	// The times to begin the connections that were opened in the window.
	Connect   *latency.Distribution `json:"connect,omitempty"`    // TCP: SYN to established
	Handshake *latency.Distribution `json:"handshake,omitempty"`  // TLS or QUIC
	FirstByte *latency.Distribution `json:"first_byte,omitempty"` // call's begin, on its own connection, to the answer's first byte
}

// Negotiated holds what both ends agreed on, read from the connections themselves.
type Negotiated struct {
	// Protocol is the protocol of the answers: h1, h2, h3, tcp-plain, tcp-calls. Several are
	// separated by commas; it is empty if nothing answered.
	Protocol string `json:"protocol,omitempty"`
	// Sessions lists the kinds of TLS sessions; none if all was cleartext.
	Sessions []Session `json:"sessions,omitempty"`
	// The congestion control of each end's sockets, as the kernel reports it, or the one of the
	// QUIC library. Several are separated by commas; it is empty if unknown.
	ClientCongestion string `json:"client_congestion,omitempty"`
	ServerCongestion string `json:"server_congestion,omitempty"`
}

// Plus returns the agreements of both.
func (n Negotiated) Plus(other Negotiated) Negotiated {
	return Negotiated{
		Protocol: joinNames(n.Protocol, other.Protocol),
		Sessions: sum.ByKey(n.Sessions, other.Sessions, func(s Session) Session {
			s.Connections = 0
			return s
		}),
		ClientCongestion: joinNames(n.ClientCongestion, other.ClientCongestion),
		ServerCongestion: joinNames(n.ServerCongestion, other.ServerCongestion),
	}
}

// joinNames joins two lists of names with commas to one that has each name once.
func joinNames(a, b string) string {
	var names []string
	for name := range strings.SplitSeq(a+","+b, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// A Session is one kind of TLS session.
type Session struct {
	Version     string `json:"version"` // as in TLS 1.3
	Cipher      string `json:"cipher"`
	Group       string `json:"group"` // of the key exchange; empty: there was none
	ALPN        string `json:"alpn,omitempty"`
	Resumed     bool   `json:"resumed,omitempty"`
	Connections int64  `json:"connections"` // since the client began
}

// Plus returns the session with the connections of both.
func (s Session) Plus(other Session) Session {
	s.Connections += other.Connections
	return s
}

// Traffic holds the traffic of a client's connections in the window, below TLS, as
// the kernel or the QUIC connection counted it. Wire divides it into layers.
type Traffic struct {
	Transport string `json:"transport"` // tcp or udp
	// SpanNS is the time from the first reading to the last: the window, to a
	// few milliseconds at each edge. A figure per request is therefore
	// bytes/SpanNS over the window's completed/WindowNS.
	SpanNS        int64 `json:"span_ns"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"` // payload of TCP segments or UDP datagrams
	// Packets counts TCP segments or UDP datagrams, including those without
	// payload.
	SentPackets     *int64 `json:"sent_packets,omitempty"`
	ReceivedPackets *int64 `json:"received_packets,omitempty"`
	// PureAcks counts the sent segments without payload: TCP only.
	SentPureAcks     *int64 `json:"sent_pure_acks,omitempty"`
	ReceivedPureAcks *int64 `json:"received_pure_acks,omitempty"`
	// HandshakeBytes counts the bytes above that were sent before the first byte of a call,
	// on connections that shook hands in the window.
	HandshakeSentBytes     *int64 `json:"handshake_sent_bytes,omitempty"`
	HandshakeReceivedBytes *int64 `json:"handshake_received_bytes,omitempty"`
	Retransmits            *int64 `json:"retransmits,omitempty"` // segments sent again, or packets lost
	RTTNS                  *int64 `json:"rtt_ns,omitempty"`      // smoothed, mean over connections
	MinRTTNS               *int64 `json:"min_rtt_ns,omitempty"`
	SendCalls              *int64 `json:"send_calls,omitempty"` // system calls that sent: over UDP the sends of its sockets, over TCP all writes and sends of the process
	ReceiveCalls           *int64 `json:"receive_calls,omitempty"`
	Offload                string `json:"offload,omitempty"` // gso, none
	// BusyNS is the time for which the connections, all together, had unacknowledged data
	// in flight; BlockedNS is the part of it for which the peer's window or
	// the send buffer held them back. TCP only, as the kernel counts it (TCP_INFO).
	BusyNS    *int64 `json:"busy_ns,omitempty"`
	BlockedNS *int64 `json:"blocked_ns,omitempty"`
}

// Link holds the effects of an emulated link in both directions, from the server's start
// to the client's end.
type Link struct {
	// Engine names the engine that carried the packets: direct, tbf, netem or frames. Absent: frames.
	Engine string `json:"engine,omitempty"`
	// Seed decided the loss and the delay of packets.
	Seed      uint64 `json:"seed,omitempty"`
	Frames    int64  `json:"frames"`
	Dropped   int64  `json:"dropped"`     // because the emulator had no room
	LateP50NS int64  `json:"late_p50_ns"` // how much later than due packets were sent; of the later direction
	LateP99NS int64  `json:"late_p99_ns"`
	// The effects from client to server, and back. Absent in older records.
	Up   *LinkWay `json:"up,omitempty"`
	Down *LinkWay `json:"down,omitempty"`
}

// A LinkWay holds the effects of a link on the packets of one direction.
type LinkWay struct {
	Frames     int64 `json:"frames"` // packets that came to the link
	Bytes      int64 `json:"bytes"`
	Sent       int64 `json:"sent"` // packets that left it, including duplicates
	Lost       int64 `json:"lost"` // as wanted
	Reordered  int64 `json:"reordered"`
	Duplicated int64 `json:"duplicated"`
	Full       int64 `json:"full"`    // dropped because the queue of the rate was full, as wanted
	Overrun    int64 `json:"overrun"` // lost because the emulator had no room
	// How long packets were held, and how much longer than due; unknown for the kernel's engines.
	DelayP50NS *int64 `json:"delay_p50_ns,omitempty"`
	DelayP99NS *int64 `json:"delay_p99_ns,omitempty"`
	LateP50NS  *int64 `json:"late_p50_ns,omitempty"`
	LateP99NS  *int64 `json:"late_p99_ns,omitempty"`
}

// Wire holds the bytes of a call on the wire, layer by layer: the mean of calls that
// the client made one at a time, over a connection of its own, after the window. The
// first call of a connection, whose headers are not compressed yet, is separate;
// QUIC's probes for larger packets are left out.
type Wire struct {
	Calls    int64     `json:"calls"`    // the number of calls in the means
	Request  WireBytes `json:"request"`  // from the client to the server
	Response WireBytes `json:"response"` // from the server to the client

	// The bytes of a connection's first call, and the bytes of the connection
	// besides its calls: handshakes, settings, session tickets, and, in the
	// modes that open one connection per call, the close. All are payload of
	// TCP segments or UDP datagrams. The handshakes are of the cell's own
	// mode.
	FirstSentBytes         float64 `json:"first_sent_bytes"`
	FirstReceivedBytes     float64 `json:"first_received_bytes"`
	HandshakeSentBytes     float64 `json:"handshake_sent_bytes"`
	HandshakeReceivedBytes float64 `json:"handshake_received_bytes"`
}

// WireBytes holds the bytes of one direction of a call. An absent figure could not
// be separated: ProtocolBytes then has its bytes if they are payload of segments or
// datagrams. Otherwise no figure has them.
type WireBytes struct {
	// MessageBytes is the size of the messages, as protobuf would encode them.
	MessageBytes float64 `json:"message_bytes"`
	// ProtocolBytes is the size of headers and framing, which the stack added to
	// the messages before it gave them to TLS, TCP or UDP. It is below zero if
	// the stack's encoding is shorter than protobuf's.
	ProtocolBytes float64 `json:"protocol_bytes"`
	// SecurityBytes counts the bytes that TLS added: its records were counted, and each
	// adds 22 bytes (RFC 8446, section 5.2: header, type, tag). For QUIC, it counts the
	// bytes of its packets beyond the content of their STREAM frames, which was counted.
	SecurityBytes *float64 `json:"security_bytes,omitempty"`
	// TransportBytes is the size of the headers of TCP and IP, or UDP and IP,
	// on packets with payload. The packets were counted; the size of a header
	// follows from the standards and the connection's options. A link with
	// smaller packets has more headers.
	TransportBytes *float64 `json:"transport_bytes,omitempty"`
	// AckBytes is the size of the segments without payload in this direction, or
	// of QUIC's packets with only acknowledgements, including headers, counted
	// like TransportBytes. Acknowledgements that travel with data are in the
	// data's headers.
	AckBytes *float64 `json:"ack_bytes,omitempty"`
}

// PayloadBytes returns all bytes except the headers of the transport and
// the acknowledgements that travel alone.
func (b WireBytes) PayloadBytes() float64 {
	return b.MessageBytes + b.ProtocolBytes + valueOrZero(b.SecurityBytes)
}

// TotalBytes returns all bytes that are known to have gone over the wire.
func (b WireBytes) TotalBytes() float64 {
	return b.PayloadBytes() + valueOrZero(b.TransportBytes) + valueOrZero(b.AckBytes)
}

func valueOrZero(figure *float64) float64 {
	if figure == nil {
		return 0
	}
	return *figure
}
