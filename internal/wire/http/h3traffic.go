package httpwire

import (
	"time"

	"github.com/quic-go/quic-go"
)

// QUICTraffic holds the counts of a client's QUIC connections, open and closed.
type QUICTraffic struct {
	PacketsSent, PacketsReceived, PacketsLost int64
	BytesSent, BytesReceived                  int64 // without UDP's and IP's headers
	// SmoothedRTT is the mean over connections, MinRTT the minimum. Both are 0 if
	// no connection has measured its RTT.
	SmoothedRTT, MinRTT time.Duration

	SendCalls, ReceiveCalls          int64 // sendmsg and recvmmsg calls that succeeded
	DatagramsSent, DatagramsReceived int64
	GSO                              bool // one call can send several datagrams
	IPv6                             bool // false: IPv4
}

// Traffic returns the counts of the client's connections so far. ok is false
// unless the client speaks HTTP/3.
func (c *Client) Traffic() (traffic QUICTraffic, ok bool) {
	counter, ok := c.carrier.(interface{ Traffic() QUICTraffic })
	if !ok {
		return QUICTraffic{}, false
	}
	return counter.Traffic(), true
}

// quicSums adds up the counts of connections.
type quicSums struct {
	QUICTraffic
	rtts   int64 // connections with an RTT
	rttSum time.Duration
}

func (s *quicSums) add(conn *quic.Conn) {
	stats := conn.ConnectionStats()
	s.PacketsSent += int64(stats.PacketsSent)
	s.PacketsReceived += int64(stats.PacketsReceived)
	s.PacketsLost += int64(stats.PacketsLost)
	s.BytesSent += int64(stats.BytesSent)
	s.BytesReceived += int64(stats.BytesReceived)
	s.GSO = s.GSO || conn.ConnectionState().GSO
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
func (s quicSums) total(socket *udpSocket) QUICTraffic {
	t := s.QUICTraffic
	if s.rtts > 0 {
		t.SmoothedRTT = s.rttSum / time.Duration(s.rtts)
	}
	t.SendCalls, t.ReceiveCalls = socket.sendCalls.Load(), socket.receiveCalls.Load()
	t.DatagramsSent, t.DatagramsReceived = socket.datagramsSent.Load(), socket.datagramsReceived.Load()
	return t
}
