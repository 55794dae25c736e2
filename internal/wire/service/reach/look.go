package reach

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// A Listening describes what listens at an address over TCP, as far as LookAt finds out.
type Listening struct {
	Err      error  // the error of connecting; nil: something listens
	TLS      bool   // it speaks TLS
	Protocol string // HTTP/1.1 or HTTP/2; empty: neither, or over TLS neither was agreed on
	HTTP2    bool   // it speaks HTTP/2 beside HTTP/1.1, without TLS
}

// String describes what listens.
func (l Listening) String() string {
	with := "without TLS"
	if l.TLS {
		with = "over TLS"
	}
	if l.Protocol == "" {
		if l.TLS {
			return "a server over TLS"
		}
		return "a server that speaks neither TLS nor HTTP"
	}
	protocol := l.Protocol
	if l.HTTP2 {
		protocol += " and HTTP/2"
	}
	return fmt.Sprintf("a server of %s %s", protocol, with)
}

// lookAt limits the time of each question that LookAt asks.
const lookAt = time.Second

// LookAt asks what listens at an address: whether it answers to TLS, and to HTTP.
func LookAt(ctx context.Context, address string) Listening {
	conn, err := dialToLook(ctx, address)
	if err != nil {
		return Listening{Err: err}
	}
	found, is := overTLS(ctx, conn)
	if is && found.TLS {
		return found
	}
	if conn, err = dialToLook(ctx, address); err != nil {
		return Listening{Protocol: found.Protocol} // it listened a moment ago
	}
	protocol := inCleartext(conn)
	if !is {
		return Listening{Protocol: protocol}
	}
	found.HTTP2 = protocol == http2Name
	return found
}

// The names of the protocols in Listening.
const (
	http1Name = "HTTP/1.1"
	http2Name = "HTTP/2"
)

func dialToLook(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: lookAt}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(lookAt))
}

// overTLS begins TLS on a connection, and describes the peer if it answers with TLS, or with the
// error message of a server of HTTP/1.1. It closes the connection.
func overTLS(ctx context.Context, conn net.Conn) (found Listening, is bool) {
	defer conn.Close()
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	config := &tls.Config{
		ServerName: host, NextProtos: []string{"h2", "http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // nothing is sent to the peer, and its answers are not trusted
	}
	client := tls.Client(conn, config)
	err := client.HandshakeContext(ctx)
	if err == nil {
		agreed := map[string]string{"h2": http2Name, "http/1.1": http1Name}
		return Listening{TLS: true, Protocol: agreed[client.ConnectionState().NegotiatedProtocol]}, true
	}
	if wrong, is := errors.AsType[tls.RecordHeaderError](err); is {
		protocol := http1(wrong.RecordHeader[:])
		return Listening{Protocol: protocol}, protocol != ""
	}
	return Listening{TLS: true}, strings.HasPrefix(string(failure.Of(err)), string(failure.TLSAlert))
}

// HTTP/2 begins with this preface, and SETTINGS (RFC 9113, sections 3.4 and 6.5).
const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	settingsType  = 4
	headerBytes   = 9
)

// inCleartext begins HTTP/2 on a connection, and returns the protocol of the answer: a server of
// HTTP/1.1 answers with an HTTP/1.1 error. It closes the connection.
func inCleartext(conn net.Conn) string {
	defer conn.Close()
	if _, err := io.WriteString(conn, preface+emptySettings); err != nil {
		return ""
	}
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(conn, header); err != nil {
		return ""
	}
	length, kind, streamID := uint32(header[0])<<16|uint32(header[1])<<8|uint32(header[2]), header[3], binary.BigEndian.Uint32(header[5:])
	if kind == settingsType && length%6 == 0 && streamID == 0 {
		return http2Name
	}
	return http1(header)
}

// http1 returns HTTP/1.1 if an answer begins with its name, or with a page without a status
// line: some servers answer unknown versions in this way.
func http1(beginning []byte) string {
	if text := string(beginning); strings.HasPrefix(text, "HTTP/") || strings.HasPrefix(text, "<!DOC") || strings.HasPrefix(text, "<html") {
		return http1Name
	}
	return ""
}

// A Look finds out what listens at an address, but only if a call there fails or takes long: a
// client whose calls succeed must not send strange requests to a server.
type Look struct {
	find func() Listening
	late *time.Timer
}

// lookAfter is the time after which a call counts as slow, and Look begins.
const lookAfter = 500 * time.Millisecond

// LookMeanwhile waits for a reason to look. The caller must call Stop at the end. A look that has
// begun ends by itself, since its questions are limited.
func LookMeanwhile(ctx context.Context, network, address string) *Look {
	find := sync.OnceValue(func() Listening {
		if network != "tcp" {
			return Listening{}
		}
		return LookAt(context.WithoutCancel(ctx), address)
	})
	return &Look{find: find, late: time.AfterFunc(lookAfter, func() { find() })}
}

// Result returns what listens there.
func (l *Look) Result() Listening { return l.find() }

// Stop ends the wait for a reason.
func (l *Look) Stop() { l.late.Stop() }

// lookUpAtMost bounds the time to look up a name.
const lookUpAtMost = 4 * time.Second

// LookUp returns the address of the target's host, the first at which something listens, so that
// calls need not look up the name.
func LookUp(ctx context.Context, t service.Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpAtMost)
	defer cancel()
	addresses, err := AddressesOf(ctx, t.Host)
	if err != nil {
		return "", err
	}
	var found []string
	for _, address := range addresses {
		found = append(found, net.JoinHostPort(address.Unmap().String(), t.Port))
	}
	if len(found) == 1 {
		return found[0], nil
	}
	for _, address := range found {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return address, nil
		}
	}
	return found[0], nil // the first call finds out what is wrong there
}

// AddressesOf returns the addresses of a host. localhost is both loopback addresses, whatever the
// machine's table of hosts says (RFC 6761, section 6.3).
func AddressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpAtMost)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if strings.EqualFold(host, "localhost") {
		for _, address := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
			if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Unmap() == address }) {
				addresses = append(addresses, address)
			}
		}
		return addresses, nil
	}
	if err != nil {
		if wrong, is := errors.AsType[*net.DNSError](err); is {
			err = errors.New(wrong.Err) // without the name, which Error repeats
		}
		return nil, fmt.Errorf("there is no address of %s: %w: check the name", host, err)
	}
	return addresses, nil
}

// IsNear reports whether an address belongs to this machine or to a private network.
func IsNear(a netip.Addr) bool {
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified()
}
