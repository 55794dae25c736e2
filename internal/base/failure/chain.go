package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

// classifyHandshake classifies errors of crypto/tls and crypto/x509, also when QUIC reports them.
func classifyHandshake(err error) Class {
	if kind := certificateFault(err); kind != "" {
		return Certificate.withDetail(kind)
	}
	switch {
	case isType[tls.RecordHeaderError](err), errors.Is(err, http.ErrSchemeMismatch):
		return PlaintextPeer
	case isType[*quic.HandshakeTimeoutError](err):
		return HandshakeTimeout
	}
	if which := tlsAlertIn(err); which != "" {
		return TLSAlert.withDetail(which)
	}
	return ""
}

func certificateFault(err error) string {
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case isType[x509.UnknownAuthorityError](err):
		return "unknown authority"
	case isType[x509.HostnameError](err):
		return "wrong name"
	case invalid.Reason == x509.Expired:
		return "expired"
	case isType[x509.CertificateInvalidError](err), isType[*tls.CertificateVerificationError](err):
		return "invalid"
	}
	return ""
}

// tlsAlertIn returns crypto/tls's name of a TLS alert (RFC 8446, section 6).
func tlsAlertIn(err error) string {
	// QUIC carries alerts as error codes from 0x100 (RFC 9001, section 4.8).
	const quicCrypto = 0x100
	if transport, ok := errors.AsType[*quic.TransportError](err); ok && transport.ErrorCode.IsCryptoError() {
		return alertName(tls.AlertError(transport.ErrorCode - quicCrypto))
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return alertName(alert)
	}
	// Over TCP the alert's type is not exported, but only crypto/tls uses these operation names.
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return alertName(op.Err)
	}
	return ""
}

func alertName(alert error) string { return strings.TrimPrefix(alert.Error(), "tls: ") }

func classifyErrno(err error) Class {
	is := func(numbers ...syscall.Errno) bool {
		for _, number := range numbers {
			if errors.Is(err, number) {
				return true
			}
		}
		return false
	}
	switch {
	// connect(2) finds no free port for this address, or bind(2) finds no free port at all.
	case is(syscall.EADDRNOTAVAIL, syscall.EADDRINUSE):
		return PortExhaustion
	case is(syscall.EMFILE, syscall.ENFILE):
		return DescriptorLimit
	case is(syscall.ECONNREFUSED):
		return Refused
	case is(syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED):
		return Reset
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" && dial.Timeout() {
		// Loopback drops a SYN only if a queue is full, or if the client was too slow.
		if tcp, ok := dial.Addr.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
			return Backlog
		}
		return ConnectTimeout
	}
	if is(syscall.ETIMEDOUT) { // an open connection timed out
		return Silent
	}
	return ""
}

// classifyProtocol classifies the error types of HTTP/2, HTTP/3 and QUIC. The HTTP/2 in net/http
// returns stream errors of golang.org/x/net/http2's types.
func classifyProtocol(err error) Class {
	if stream, ok := errors.AsType[http2.StreamError](err); ok {
		return classifyStreamCode(stream.Code.String(), codes.OK)
	}
	if connection, ok := errors.AsType[http2.ConnectionError](err); ok && http2.ErrCode(connection) == http2.ErrCodeFlowControl {
		return FlowControl
	}
	if answer, ok := errors.AsType[*http3.Error](err); ok {
		return classifyHTTP3(answer)
	}
	return classifyQUIC(err)
}

// classifyHTTP3 classifies the HTTP/3 error codes (RFC 9114, section 8.1).
func classifyHTTP3(err *http3.Error) Class {
	_, connection := errors.AsType[*quic.ApplicationError](err)
	switch {
	case err.ErrorCode == http3.ErrCodeRequestRejected:
		return StreamRefused
	case connection && err.ErrorCode == http3.ErrCodeNoError:
		return GoAway
	case connection:
		return Closed
	default:
		return StreamReset.withDetail(err.ErrorCode.String())
	}
}

func classifyQUIC(err error) Class {
	if transport, ok := errors.AsType[*quic.TransportError](err); ok {
		switch transport.ErrorCode {
		case quic.ConnectionRefused:
			return Refused
		case quic.FlowControlError:
			return FlowControl
		case quic.StreamLimitError:
			return StreamRefused
		default:
			return Closed
		}
	}
	switch {
	case isType[*quic.StreamLimitReachedError](err):
		return StreamRefused
	case isType[*quic.StatelessResetError](err):
		return Reset
	case isType[*quic.IdleTimeoutError](err):
		return Silent
	case isType[*quic.ApplicationError](err):
		return Closed
	}
	return ""
}
