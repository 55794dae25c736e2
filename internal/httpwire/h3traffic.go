package httpwire

import (
	"time"

	"github.com/quic-go/quic-go"
)

// QUICTraffic is what a client's QUIC connections saw, those that are closed
// included.
type QUICTraffic struct {
	PacketsSent, PacketsReceived, PacketsLost int64
	BytesSent, BytesReceived                  int64 // without UDP's and IP's headers
	// SmoothedRTT is the mean over connections, MinRTT the least of all. 0 where
	// no connection has measured one.
	SmoothedRTT, MinRTT time.Duration

	SendCalls, ReceiveCalls          int64 // sendmsg and recvmmsg that carried something
	DatagramsSent, DatagramsReceived int64
	GSO                              bool // several datagrams may leave in one call
	IPv6                             bool // carries the datagrams, and not IPv4
}

// Traffic is what the client's connections saw so far. Only HTTP/3 can tell.
func (c *Client) Traffic() (traffic QUICTraffic, known bool) {
	if teller, can := c.carrier.(interface{ Traffic() QUICTraffic }); can {
		return teller.Traffic(), true
	}
	return QUICTraffic{}, false
}

// quicSums adds connections up.
type quicSums struct {
	QUICTraffic
	rtts  int64         // connections with an RTT
	rttOf time.Duration // the sum of theirs
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
	s.rttOf += stats.SmoothedRTT
	if s.MinRTT == 0 || stats.MinRTT < s.MinRTT {
		s.MinRTT = stats.MinRTT
	}
}

// total is the sums with what the sockets counted.
func (s quicSums) total(sockets []*udpSocket) QUICTraffic {
	t := s.QUICTraffic
	if s.rtts > 0 {
		t.SmoothedRTT = s.rttOf / time.Duration(s.rtts)
	}
	for _, socket := range sockets {
		t.SendCalls += socket.sendCalls.Load()
		t.ReceiveCalls += socket.receiveCalls.Load()
		t.DatagramsSent += socket.datagramsSent.Load()
		t.DatagramsReceived += socket.datagramsReceived.Load()
	}
	return t
}
