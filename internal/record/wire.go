package record

// Wire is what a call puts on the wire, layer by layer: the mean of calls that
// the client made one at a time, over a connection of its own, after the
// window. The first call of a connection, whose headers are not compressed yet,
// is told apart; QUIC's probes for larger packets are left out.
type Wire struct {
	Calls    int64     `json:"calls"`    // that the means are over
	Request  WireBytes `json:"request"`  // from the client to the server
	Response WireBytes `json:"response"` // from the server to the client

	// What a connection's first call sent and received, and what went over
	// the connection besides its calls: handshakes, settings, session tickets,
	// and, in the modes that open a connection a call, what closes it. All are
	// payload of TCP segments or UDP datagrams, and the handshakes are those
	// of the cell's own mode.
	FirstSentBytes         float64 `json:"first_sent_bytes"`
	FirstReceivedBytes     float64 `json:"first_received_bytes"`
	HandshakeSentBytes     float64 `json:"handshake_sent_bytes"`
	HandshakeReceivedBytes float64 `json:"handshake_received_bytes"`
}

// WireBytes is one direction of a call. What is absent could not be told apart:
// it is then in ProtocolBytes if it is payload of segments or datagrams, and
// nowhere if it is not.
type WireBytes struct {
	// MessageBytes are the encoded messages, as protobuf would encode them.
	MessageBytes float64 `json:"message_bytes"`
	// ProtocolBytes are headers and framing: what the stack added to the
	// messages before it gave them to TLS, TCP or UDP. Below zero where its
	// encoding is shorter than protobuf's.
	ProtocolBytes float64 `json:"protocol_bytes"`
	// SecurityBytes are what TLS added: its records were counted, and each
	// adds 22 bytes (RFC 8446, section 5.2: header, type, tag). For QUIC, what
	// its packets added to the content of their STREAM frames, which was counted.
	SecurityBytes *float64 `json:"security_bytes,omitempty"`
	// TransportBytes are the headers of TCP and IP, or UDP and IP, on packets
	// with payload: the packets were counted, the size of a header is the
	// standards' and the connection's options'. A link with smaller packets
	// than this one's has more of them.
	TransportBytes *float64 `json:"transport_bytes,omitempty"`
	// AckBytes are the segments without payload that went in this direction, or
	// QUIC's packets of nothing but acknowledgements, headers and all, counted
	// as TransportBytes are. Acknowledgements that travel with data are in its
	// headers.
	AckBytes *float64 `json:"ack_bytes,omitempty"`
}

// PayloadBytes are all but the headers of the transport, and acknowledgements
// that travel alone.
func (b WireBytes) PayloadBytes() float64 {
	return b.MessageBytes + b.ProtocolBytes + known(b.SecurityBytes)
}

// TotalBytes are all that is known to have gone over the wire.
func (b WireBytes) TotalBytes() float64 {
	return b.PayloadBytes() + known(b.TransportBytes) + known(b.AckBytes)
}

// known is zero where the figure is absent.
func known(figure *float64) float64 {
	if figure == nil {
		return 0
	}
	return *figure
}
