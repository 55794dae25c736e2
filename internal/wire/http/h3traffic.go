package httpwire

import (
	"time"

	"github.com/quic-go/quic-go"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http/quicsocket"
)

// quicSums adds up the counts of connections.
type quicSums struct {
	conn.Traffic
	rtts   int64 // connections with an RTT
	rttSum time.Duration
}

func (s *quicSums) add(one *quic.Conn) {
	stats := one.ConnectionStats()
	s.SentBytes += int64(stats.BytesSent)
	s.ReceivedBytes += int64(stats.BytesReceived)
	s.Retransmits += int64(stats.PacketsLost)
	s.GSO = s.GSO || one.ConnectionState().GSO
	if stats.PacketsReceived == 0 || stats.SmoothedRTT == 0 {
		return
	}
	s.rtts++
	s.rttSum += stats.SmoothedRTT
	if s.MinRTT == 0 || stats.MinRTT < s.MinRTT {
		s.MinRTT = stats.MinRTT
	}
}

// total returns the sums together with the socket's counts.
func (s quicSums) total(socket *quicsocket.Socket, ipv6 bool) conn.Traffic {
	t := s.Traffic
	t.Transport, t.HeaderBytes = "udp", conn.DatagramHeaderBytes(ipv6)
	if s.rtts > 0 { // one mean of all: quic-go's ends with its connection
		t.OpenRTT = conn.MeanRTT{Sum: s.rttSum / time.Duration(s.rtts), Count: 1}
	}
	t.SendCalls, t.ReceiveCalls = socket.SendCalls.Load(), socket.ReceiveCalls.Load()
	t.SentPackets, t.ReceivedPackets = socket.Sent.Load(), socket.Received.Load()
	return t
}
