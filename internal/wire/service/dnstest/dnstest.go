// Package dnstest serves the addresses of one name, which a test may change.
//
//	Serve ──> Server ── Set, Fail ──> answers over UDP
//
// This package must not know who asks.
package dnstest

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Name is the name that a Server knows.
const Name = "shop.test"

// A Server is a name server. Any goroutine may call its methods.
type Server struct {
	Address   string // IP:PORT
	guard     sync.Mutex
	addresses []netip.Addr
	failing   bool
	asked     atomic.Int64
}

// Serve starts a name server, which ends with the test.
func Serve(t testing.TB, addresses ...string) *Server {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Address: packets.LocalAddr().String()}
	s.Set(addresses...)
	var serving sync.WaitGroup
	serving.Go(func() { s.serve(packets) }) // ends when packets is closed
	t.Cleanup(func() {
		_ = packets.Close()
		serving.Wait()
	})
	return s
}

// Set changes the addresses of the name. An address may stand twice.
func (s *Server) Set(addresses ...string) {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.failing, s.addresses = false, nil
	for _, a := range addresses {
		s.addresses = append(s.addresses, netip.MustParseAddr(a))
	}
}

// Fail makes the server answer that it has failed, until Set.
func (s *Server) Fail() {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.failing = true
}

// Asked returns how often the server was asked for IPv4 addresses of the name.
func (s *Server) Asked() int64 { return s.asked.Load() }

func (s *Server) serve(packets net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		if answer, err := s.answer(&query); err == nil {
			_, _ = packets.WriteTo(answer, from)
		}
	}
}

func (s *Server) answer(query *dnsmessage.Message) ([]byte, error) {
	s.guard.Lock()
	defer s.guard.Unlock()
	q := query.Questions[0]
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true}, Questions: query.Questions}
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	switch {
	case !strings.EqualFold(q.Name.String(), Name+"."):
		m.RCode = dnsmessage.RCodeNameError
	case s.failing:
		m.RCode = dnsmessage.RCodeServerFailure
	case q.Type == dnsmessage.TypeA:
		s.asked.Add(1)
	}
	if m.RCode == dnsmessage.RCodeSuccess {
		for _, a := range s.addresses {
			switch {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
	}
	return m.Pack()
}
