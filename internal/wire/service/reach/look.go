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
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// A Listener describes the server at a TCP address, as far as Probe can find out.
type Listener struct {
	Err      error  // the error of connecting; nil means that a server listens
	TLS      bool   // the server speaks TLS
	Protocol string // HTTP/1.1 or HTTP/2; empty if neither was found
	HTTP2    bool   // the server speaks both HTTP/1.1 and HTTP/2, without TLS
}

// String describes the server.
func (l Listener) String() string {
	with := "without TLS"
	if l.TLS {
		with = "over TLS"
	}
	if l.Protocol == "" {
		if l.TLS {
			return "a server with TLS"
		}
		return "a server that speaks neither TLS nor HTTP"
	}
	protocol := l.Protocol
	if l.HTTP2 {
		protocol += " and HTTP/2"
	}
	return fmt.Sprintf("a server of %s %s", protocol, with)
}

const probeTimeout = time.Second

// Probe finds out whether the server at an address speaks TLS and HTTP.
func Probe(ctx context.Context, address string) Listener {
	conn, err := dialProbe(ctx, address)
	if err != nil {
		return Listener{Err: err}
	}
	found, is := probeTLS(ctx, conn)
	if is && found.TLS {
		return found
	}
	if conn, err = dialProbe(ctx, address); err != nil {
		return Listener{Protocol: found.Protocol} // the server has just accepted a connection
	}
	protocol := probeCleartext(conn)
	if !is {
		return Listener{Protocol: protocol}
	}
	found.HTTP2 = protocol == http2Name
	return found
}

// These are the values of Listener.Protocol.
const (
	http1Name = "HTTP/1.1"
	http2Name = "HTTP/2"
)

func dialProbe(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(probeTimeout))
}

// probeTLS begins a TLS handshake on a connection. It describes the server if the server answers
// with TLS, or with an HTTP/1.1 error message. It closes the connection.
func probeTLS(ctx context.Context, conn net.Conn) (found Listener, is bool) {
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
		return Listener{TLS: true, Protocol: agreed[client.ConnectionState().NegotiatedProtocol]}, true
	}
	if wrong, is := errors.AsType[tls.RecordHeaderError](err); is {
		protocol := answeredVersion(wrong.RecordHeader[:])
		return Listener{Protocol: protocol}, protocol != ""
	}
	return Listener{TLS: true}, strings.HasPrefix(string(failure.Of(err)), string(failure.TLSAlert))
}

// HTTP/2 begins with this preface and a SETTINGS frame (RFC 9113, sections 3.4 and 6.5).
const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	settingsType  = 4
	headerBytes   = 9
)

// probeCleartext begins HTTP/2 on a connection and returns the protocol of the answer. An HTTP/1.1
// server answers with an HTTP/1.1 error. It closes the connection.
func probeCleartext(conn net.Conn) string {
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
	return answeredVersion(header)
}

// answeredVersion returns HTTP/1.1 if an answer begins with that name or with a web page. Some
// servers answer unknown versions with a web page that has no status line.
func answeredVersion(beginning []byte) string {
	if text := string(beginning); strings.HasPrefix(text, "HTTP/") || strings.HasPrefix(text, "<!DOC") || strings.HasPrefix(text, "<html") {
		return http1Name
	}
	return ""
}

// A SlowProbe probes the server at an address, but only if a call there fails or is slow. If calls
// succeed, the server gets no unusual requests.
type SlowProbe struct {
	find func() Listener
	late *time.Timer
}

// slowCallTime is the time after which a call counts as slow and the probe begins.
const slowCallTime = 500 * time.Millisecond

// ProbeIfSlow waits until a call counts as slow, and then probes. The caller must call Stop at the
// end. A probe that has begun ends by itself, because its requests have timeouts.
func ProbeIfSlow(ctx context.Context, network, address string) *SlowProbe {
	find := sync.OnceValue(func() Listener {
		if network != "tcp" {
			return Listener{}
		}
		return Probe(context.WithoutCancel(ctx), address)
	})
	return &SlowProbe{find: find, late: time.AfterFunc(slowCallTime, func() { find() })}
}

// Result returns the probe's result. It probes now if no probe has begun.
func (l *SlowProbe) Result() Listener { return l.find() }

// Stop prevents a probe that has not begun.
func (l *SlowProbe) Stop() { l.late.Stop() }

// LookUp looks up the target's host, so that calls need not do that. It returns the first address at
// which a server listens, if there is one. all is nil if only this address gets calls.
func LookUp(ctx context.Context, t service.Target) (first string, all *service.Addresses, _ error) {
	found, err := t.LookUp().Find(ctx)
	if err != nil {
		return "", nil, err
	}
	all = t.Among(found)
	if len(found) == 1 {
		return found[0], all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for _, address := range found {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return address, all, nil
		}
	}
	return found[0], all, nil // the first call will report the problem with this address
}

// lookTimeout bounds the search for an address at which a server listens.
const lookTimeout = 4 * time.Second

// A PublicAddress is a target's address outside this machine and private networks.
type PublicAddress struct {
	Host string // the host that has the address
	netip.Addr
}

// FindPublicAddress returns an address of the target that is neither on this machine nor on a
// private network, or nil. The user must permit a load of such an address.
func FindPublicAddress(ctx context.Context, t service.Target) (*PublicAddress, error) {
	for _, dialled := range t.Dialled() {
		host, _, err := net.SplitHostPort(dialled)
		if err != nil {
			return nil, err
		}
		addresses, err := t.LookUp().AddressesOf(ctx, host)
		if err != nil {
			return nil, err // do not look the name up again: the name server may hang
		}
		for _, address := range addresses {
			if !service.IsLocalOrPrivate(address) {
				return &PublicAddress{host, address}, nil
			}
		}
	}
	return nil, nil
}
