package lab

import (
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/worker"
)

// traffic is what the client says of its connections; what its transport cannot
// tell is absent.
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
		return r
	}
	r.SendCalls, r.ReceiveCalls, r.Offload = &t.SendCalls, &t.ReceiveCalls, "none"
	if t.GSO {
		r.Offload = "gso"
	}
	return r
}

// wire shares out what a census counted over the layers.
func wire(c *worker.Census) *record.Wire {
	if c == nil || c.Calls == 0 || c.Traffic.SentBytes == 0 {
		return nil // nothing that the kernel or QUIC carried
	}
	t := c.Traffic
	w := &record.Wire{
		Calls: c.Calls,
		Request: layers{
			calls: c.Calls, messages: c.MessageSentBytes, payload: t.SentBytes, records: c.RecordsSent,
			packets: t.SentPackets - t.SentPureAcks, acks: t.SentPureAcks,
		}.share(t),
		Response: layers{
			calls: c.Calls, messages: c.MessageReceivedBytes, payload: t.ReceivedBytes, records: c.RecordsReceived,
			packets: t.ReceivedPackets - t.ReceivedPureAcks, acks: t.ReceivedPureAcks,
		}.share(t),
		FirstSentBytes: float64(c.First.SentBytes), FirstReceivedBytes: float64(c.First.ReceivedBytes),
	}
	if h := c.Handshakes; h.Count > 0 {
		w.HandshakeSentBytes = float64(h.SentBytes) / float64(h.Count)
		w.HandshakeReceivedBytes = float64(h.ReceivedBytes) / float64(h.Count)
	}
	return w
}

// layers are one direction's sums.
type layers struct {
	calls                                     int64
	messages, payload, records, packets, acks int64
}

// share is a call's part of each layer. QUIC does not tell its own part of a
// datagram from what it carries.
func (l layers) share(t stack.Traffic) record.WireBytes {
	each := func(sum int64) *float64 {
		mean := float64(sum) / float64(l.calls)
		return &mean
	}
	security := l.records * stack.RecordBytes
	b := record.WireBytes{
		MessageBytes:   *each(l.messages),
		ProtocolBytes:  *each(l.payload - l.messages - security),
		TransportBytes: each(l.packets * t.HeaderBytes),
	}
	if t.Transport == "tcp" {
		b.SecurityBytes, b.AckBytes = each(security), each(l.acks*t.HeaderBytes)
	}
	return b
}
