package lab

import (
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
)

// traffic converts the traffic of the client's connections. Figures that its transport
// does not have are absent.
func traffic(t *worker.Traffic) *record.Traffic {
	if t == nil {
		return nil
	}
	r := &record.Traffic{
		Transport: t.Transport, SpanNS: t.SpanNS,
		SentBytes: t.SentBytes, ReceivedBytes: t.ReceivedBytes,
		SentPackets: &t.SentPackets, ReceivedPackets: &t.ReceivedPackets,
		Retransmits: &t.Retransmits,
	}
	if rtt := t.RTT(); rtt > 0 {
		r.RTTNS, r.MinRTTNS = (*int64)(&rtt), measured(int64(t.MinRTT))
	}
	if t.Handshakes > 0 {
		r.HandshakeSentBytes, r.HandshakeReceivedBytes = &t.HandshakeSentBytes, &t.HandshakeReceivedBytes
	}
	if t.Transport == "tcp" {
		r.SentPureAcks, r.ReceivedPureAcks = &t.SentPureAcks, &t.ReceivedPureAcks
		r.BusyNS, r.BlockedNS = (*int64)(&t.Busy), (*int64)(&t.Blocked)
		r.SendCalls = measured(t.SendCalls)
		return r
	}
	r.SendCalls, r.ReceiveCalls, r.Offload = &t.SendCalls, &t.ReceiveCalls, "none"
	if t.GSO {
		r.Offload = "gso"
	}
	return r
}

// wire divides what a census counted between the layers.
func wire(c *worker.Census) *record.Wire {
	if c == nil || c.Calls == 0 || c.Traffic.SentBytes == 0 {
		return nil // neither the kernel nor QUIC carried anything
	}
	t := c.Traffic
	w := &record.Wire{
		Calls: c.Calls,
		Request: layers{
			messages: c.MessageSentBytes, payload: t.SentBytes, records: c.RecordsSent, streams: c.StreamSentBytes,
			packets: t.SentPackets - t.SentPureAcks, acks: t.SentPureAcks, ackBytes: c.AckSentBytes,
		}.share(c),
		Response: layers{
			messages: c.MessageReceivedBytes, payload: t.ReceivedBytes, records: c.RecordsReceived, streams: c.StreamReceivedBytes,
			packets: t.ReceivedPackets - t.ReceivedPureAcks, acks: t.ReceivedPureAcks, ackBytes: c.AckReceivedBytes,
		}.share(c),
		FirstSentBytes: float64(c.First.SentBytes), FirstReceivedBytes: float64(c.First.ReceivedBytes),
	}
	if h := c.Handshakes; h.Count > 0 {
		w.HandshakeSentBytes = float64(h.SentBytes) / float64(h.Count)
		w.HandshakeReceivedBytes = float64(h.ReceivedBytes) / float64(h.Count)
	}
	return w
}

// layers holds the sums of one direction.
type layers struct {
	messages, payload int64
	records           int64 // TLS over TCP
	streams, ackBytes int64 // QUIC: of its streams, of packets that only acknowledge
	packets, acks     int64 // with payload, and without
}

// share returns the bytes of one call in each layer.
func (l layers) share(c *worker.Census) record.WireBytes {
	each := func(sum int64) *float64 {
		mean := float64(sum) / float64(c.Calls)
		return &mean
	}
	security := l.records * conn.RecordBytes
	if c.Traffic.Transport == "udp" {
		security = l.payload - l.ackBytes - l.streams
	}
	return record.WireBytes{
		MessageBytes:   *each(l.messages),
		ProtocolBytes:  *each(l.payload - l.ackBytes - security - l.messages),
		SecurityBytes:  each(security),
		TransportBytes: each(l.packets * c.Traffic.HeaderBytes),
		AckBytes:       each(l.ackBytes + l.acks*c.Traffic.HeaderBytes),
	}
}
