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
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return PlaintextPeer
	}
	if _, ok := errors.AsType[*quic.HandshakeTimeoutError](err); ok {
		return HandshakeTimeout
	}
	if which := alertOf(err); which != "" {
		return TLSAlert.with(which)
	}
	return ""
}

func ofCertificate(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "unknown authority"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "wrong name"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "expired"
		}
		return "invalid"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
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
