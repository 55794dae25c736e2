package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/quic-go/quic-go"
)

// ofHandshake classifies errors of crypto/tls and crypto/x509, and QUIC's forms of them.
func ofHandshake(err error) Class {
	if kind := ofCertificate(err); kind != "" {
		return Certificate.with(kind)
	}
	switch {
	case isType[tls.RecordHeaderError](err), errors.Is(err, http.ErrSchemeMismatch):
		return PlaintextPeer
	case isType[*quic.HandshakeTimeoutError](err):
		return HandshakeTimeout
	}
	if which := alertOf(err); which != "" {
		return TLSAlert.with(which)
	}
	return ""
}

func ofCertificate(err error) string {
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

// alertOf returns crypto/tls's name of a TLS alert (RFC 8446, section 6).
func alertOf(err error) string {
	// QUIC carries alerts as error codes from 0x100 (RFC 9001, section 4.8).
	const quicCrypto = 0x100
	if transport, ok := errors.AsType[*quic.TransportError](err); ok && transport.ErrorCode.IsCryptoError() {
		return alertName(tls.AlertError(transport.ErrorCode - quicCrypto))
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return alertName(alert)
	}
	// Over TCP the alert's type is not exported, but only crypto/tls uses these
	// operations.
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return alertName(op.Err)
	}
	return ""
}

func alertName(alert error) string { return strings.TrimPrefix(alert.Error(), "tls: ") }
