package record

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/sum"
)

// Connections counts the planned connections and the opened ones.
type Connections struct {
	Mode   string `json:"mode"`
	Want   int    `json:"want"`
	Opened int64  `json:"opened"`
	Failed int64  `json:"failed"`
	// During counts the connections that were opened inside the window.
	During int64 `json:"during"`

	// The next counts are handshakes inside the window, read from the TLS or QUIC state. All are
	// zero on a wire without TLS.
	Full    int64 `json:"full,omitempty"`    // handshakes with a certificate
	Resumed int64 `json:"resumed,omitempty"` // handshakes that resumed a TLS session
	Early   int64 `json:"early,omitempty"`   // resumptions whose early data the server accepted
	// Resumptions whose early data the server refused.
	EarlyRefused    int64 `json:"early_refused,omitempty"`
	HandshakeFailed int64 `json:"handshake_failed,omitempty"` // connections whose handshake failed

	// Times of the steps that open a connection, for connections opened in the window.
	Connect *latency.Distribution `json:"connect,omitempty"` // TCP: from SYN to established
	// Duration of the TLS or QUIC handshake.
	Handshake *latency.Distribution `json:"handshake,omitempty"`
	// From the begin of a call that opens its own connection to the answer's first byte.
	FirstByte *latency.Distribution `json:"first_byte,omitempty"`
}

// Addresses describes the addresses of a service whose calls go to several of them.
type Addresses struct {
	Policy string    `json:"policy"` // how calls are divided among them: all or least
	All    []Address `json:"all"`
	// LookUps describes the look-ups during the load; nil means that the addresses were looked up only before it.
	LookUps *LookUps `json:"look_ups,omitempty"`
}

// Plus merges the addresses of both.
func (a Addresses) Plus(other Addresses) Addresses {
	a.Policy = joinNames(a.Policy, other.Policy)
	a.LookUps = sum.AddPresent(a.LookUps, other.LookUps)
	a.All = sum.ByKey(a.All, other.All, func(one Address) string { return one.Address })
	return a
}

// Changed reports whether the addresses changed during the load.
func (a *Addresses) Changed() bool { return a != nil && a.LookUps != nil && a.LookUps.Changes > 0 }

// LookUps counts look-ups of a service's name during the load, with the warm-up.
type LookUps struct {
	Done    int64  `json:"done"`              // all look-ups, failed ones included
	Changes int64  `json:"changes"`           // look-ups that found other addresses than the one before
	Failed  int64  `json:"failed"`            // failed look-ups, after which calls went to the same addresses as before
	Example string `json:"example,omitempty"` // the error of the first failed one
}

// Plus adds the counts of l and other.
func (l LookUps) Plus(other LookUps) LookUps {
	l.Done += other.Done
	l.Changes += other.Changes
	l.Failed += other.Failed
	l.Example = cmp.Or(l.Example, other.Example)
	return l
}

// An Address is one address of a service.
type Address struct {
	Address string `json:"address"` // IP:PORT
	// Unreached counts the attempts to connect that failed, also before the window. Their calls went to
	// other addresses. Example is the error of the first one.
	Unreached int64  `json:"unreached,omitempty"`
	Example   string `json:"example,omitempty"`
}

// Plus adds the counts of a and other.
func (a Address) Plus(other Address) Address {
	a.Unreached += other.Unreached
	a.Example = cmp.Or(a.Example, other.Example)
	return a
}

// Negotiated holds the protocols and options that client and server negotiated, read from the
// connections themselves.
type Negotiated struct {
	// Protocol lists the protocols of the answers, separated by commas: h1, h2, h3, tcp-plain,
	// tcp-calls. It is empty if nothing answered.
	Protocol string `json:"protocol,omitempty"`
	// Sessions lists the kinds of TLS sessions. It is empty if all connections were cleartext.
	Sessions []Session `json:"sessions,omitempty"`
	// ClientCongestion and ServerCongestion name the congestion control of each side's sockets,
	// from the kernel or the QUIC library. Names are separated by commas. Empty means unknown.
	ClientCongestion string `json:"client_congestion,omitempty"`
	ServerCongestion string `json:"server_congestion,omitempty"`
}

// Plus merges n and other.
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

// joinNames merges two comma-separated lists of names. Each name occurs once in the result.
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
	Version     string `json:"version"` // TLS version, such as TLS 1.3
	Cipher      string `json:"cipher"`
	Group       string `json:"group"` // key exchange group; empty if there was no key exchange
	ALPN        string `json:"alpn,omitempty"`
	Resumed     bool   `json:"resumed,omitempty"`
	Connections int64  `json:"connections"` // number of connections since the client began
}

// Plus adds up the connections of two equal kinds of sessions.
func (s Session) Plus(other Session) Session {
	s.Connections += other.Connections
	return s
}

// Traffic holds the traffic of a client's connections in the window, below TLS. The kernel or the
// QUIC connection counted the traffic. Wire divides it into layers.
type Traffic struct {
	Transport string `json:"transport"` // tcp or udp
	// SpanNS is the time from the first reading to the last. It is the window, to a few
	// milliseconds at each edge. So the bytes per request are (bytes/SpanNS) /
	// (completed/WindowNS).
	SpanNS        int64 `json:"span_ns"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"` // payload of TCP segments or UDP datagrams
	// Packets are TCP segments or UDP datagrams, including those without payload.
	SentPackets     *int64 `json:"sent_packets,omitempty"`
	ReceivedPackets *int64 `json:"received_packets,omitempty"`
	// PureAcks are sent or received TCP segments without payload. Absent for UDP.
	SentPureAcks     *int64 `json:"sent_pure_acks,omitempty"`
	ReceivedPureAcks *int64 `json:"received_pure_acks,omitempty"`
	// HandshakeBytes are bytes before the first byte of a call, on connections that made their
	// handshake in the window. SentBytes and ReceivedBytes include these bytes.
	HandshakeSentBytes     *int64 `json:"handshake_sent_bytes,omitempty"`
	HandshakeReceivedBytes *int64 `json:"handshake_received_bytes,omitempty"`
	// TCP segments sent again, or QUIC packets lost
	Retransmits *int64 `json:"retransmits,omitempty"`
	RTTNS       *int64 `json:"rtt_ns,omitempty"` // smoothed round-trip time, mean over connections
	MinRTTNS    *int64 `json:"min_rtt_ns,omitempty"`
	// Number of system calls that sent data; over TCP it includes all writes of the process.
	SendCalls    *int64 `json:"send_calls,omitempty"`
	ReceiveCalls *int64 `json:"receive_calls,omitempty"`
	Offload      string `json:"offload,omitempty"` // segmentation offload: gso or none
	// BusyNS is the time during which connections had unacknowledged data, summed over
	// connections. BlockedNS is the part of BusyNS in which the peer's window or the send buffer
	// stopped the sender. TCP only (TCP_INFO).
	BusyNS    *int64 `json:"busy_ns,omitempty"`
	BlockedNS *int64 `json:"blocked_ns,omitempty"`
}

// Link holds the effects of an emulated link, from the server's start to the client's end.
type Link struct {
	// Engine names the engine that carried the packets: direct, tbf, netem or frames. Absent means
	// frames.
	Engine string `json:"engine,omitempty"`
	// Seed is the random seed for the loss and the delay of packets.
	Seed    uint64 `json:"seed,omitempty"`
	Frames  int64  `json:"frames"`
	Dropped int64  `json:"dropped"` // packets lost because the emulator's memory was full
	// Median time by which packets were sent too late, in the slower direction.
	LateP50NS int64 `json:"late_p50_ns"`
	LateP99NS int64 `json:"late_p99_ns"`
	// Up and Down are the effects in the two directions. Absent in older records.
	Up   *LinkWay `json:"up,omitempty"`
	Down *LinkWay `json:"down,omitempty"`
}

// A LinkWay holds the effects of a link on the packets of one direction.
type LinkWay struct {
	Frames     int64 `json:"frames"` // packets that arrived at the link
	Bytes      int64 `json:"bytes"`
	Sent       int64 `json:"sent"` // packets that left the link, including duplicates
	Lost       int64 `json:"lost"` // packets lost as configured
	Reordered  int64 `json:"reordered"`
	Duplicated int64 `json:"duplicated"`
	// Packets dropped as configured, because the rate's queue was full.
	Full    int64 `json:"full"`
	Overrun int64 `json:"overrun"` // packets lost because the emulator's memory was full
	// DelayP50NS is the time that packets stayed in the link; LateP50NS is how much longer than
	// planned that was. The kernel's engines leave both figures out.
	DelayP50NS *int64 `json:"delay_p50_ns,omitempty"`
	DelayP99NS *int64 `json:"delay_p99_ns,omitempty"`
	LateP50NS  *int64 `json:"late_p50_ns,omitempty"`
	LateP99NS  *int64 `json:"late_p99_ns,omitempty"`
}

// Wire holds the bytes of a call on the wire, layer by layer. The figures are means of calls that
// the client made after the window, one at a time, on a separate connection. The first call of a
// connection is separate, because its headers are not compressed yet. QUIC's probes for larger
// packets are left out.
type Wire struct {
	Calls    int64     `json:"calls"`    // number of calls in the means
	Request  WireBytes `json:"request"`  // bytes from client to server
	Response WireBytes `json:"response"` // bytes from server to client

	// The next four figures are the bytes of a connection's first call, and the connection's bytes
	// outside calls: handshakes, settings, session tickets and, with one connection per call, the
	// close. All are payload of TCP segments or UDP datagrams. The handshakes are those of the
	// cell's connection mode.
	FirstSentBytes         float64 `json:"first_sent_bytes"`
	FirstReceivedBytes     float64 `json:"first_received_bytes"`
	HandshakeSentBytes     float64 `json:"handshake_sent_bytes"`
	HandshakeReceivedBytes float64 `json:"handshake_received_bytes"`
}

// WireBytes holds the bytes of one direction of a call. A figure is absent if it could not be
// separated. If the bytes are payload of segments or datagrams, ProtocolBytes includes them;
// otherwise no figure does.
type WireBytes struct {
	// MessageBytes is the size of the messages in protobuf encoding.
	MessageBytes float64 `json:"message_bytes"`
	// ProtocolBytes is the size of the headers and framing that the stack added to the messages
	// above TLS, TCP or UDP. It is negative if the stack's encoding is shorter than protobuf's.
	ProtocolBytes float64 `json:"protocol_bytes"`
	// SecurityBytes is the number of bytes that TLS added: 22 bytes per counted record (RFC 8446,
	// section 5.2: header, type, tag). For QUIC it is the size of the packets minus the content of
	// their STREAM frames.
	SecurityBytes *float64 `json:"security_bytes,omitempty"`
	// TransportBytes is the size of the headers of TCP and IP, or UDP and IP, on packets with
	// payload. The packets were counted. The size of a header follows from the standards and the
	// connection's options. A link with smaller packets has more headers.
	TransportBytes *float64 `json:"transport_bytes,omitempty"`
	// AckBytes is the size of the TCP segments without payload in this direction, or of the QUIC
	// packets with only acknowledgements, including headers. Acknowledgements in packets with data
	// are not included.
	AckBytes *float64 `json:"ack_bytes,omitempty"`
}

// PayloadBytes returns the bytes without transport headers and separate acknowledgements.
func (b WireBytes) PayloadBytes() float64 {
	return b.MessageBytes + b.ProtocolBytes + valueOrZero(b.SecurityBytes)
}

// TotalBytes returns the sum of all known bytes on the wire.
func (b WireBytes) TotalBytes() float64 {
	return b.PayloadBytes() + valueOrZero(b.TransportBytes) + valueOrZero(b.AckBytes)
}

func valueOrZero(figure *float64) float64 {
	if figure == nil {
		return 0
	}
	return *figure
}
