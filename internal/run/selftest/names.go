package selftest

import (
	"context"
	"net"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// names is a slow name server. It knows every name, as 127.0.0.1.
type names struct {
	Listen string        `json:"listen"`
	Delay  time.Duration `json:"delay"`
}

func (n *names) play(ctx context.Context, ready func(string)) error {
	conn, err := net.ListenPacket("udp", n.Listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	ready(conn.LocalAddr().String())
	for {
		question := make([]byte, 512) // RFC 1035, section 2.3.4
		size, from, err := conn.ReadFrom(question)
		if err != nil {
			return nil // the socket was closed because the play is over
		}
		if answer, err := answerTo(question[:size]); err == nil {
			time.AfterFunc(n.Delay, func() { _, _ = conn.WriteTo(answer, from) })
		}
	}
}

// answerTo returns an answer with an address to questions for IPv4, and an empty one to others.
func answerTo(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Authoritative = true, true
	m.Additionals = nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	return m.Pack()
}
