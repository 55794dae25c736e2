package failure

import (
	"errors"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"
)

// ofProtocol classifies the error types of HTTP/2, HTTP/3 and QUIC. net/http's own
// HTTP/2 returns stream errors of the types in golang.org/x/net/http2.
func ofProtocol(err error) Class {
	if stream, ok := errors.AsType[http2.StreamError](err); ok {
		return ofHTTP2(stream.Code)
	}
	if connection, ok := errors.AsType[http2.ConnectionError](err); ok && http2.ErrCode(connection) == http2.ErrCodeFlowControl {
		return FlowControl
	}
	if answer, ok := errors.AsType[*http3.Error](err); ok {
		return ofHTTP3(answer)
	}
	return ofQUIC(err)
}

// ofHTTP2 classifies the code of a stream that was reset (RFC 9113, section 7).
func ofHTTP2(code http2.ErrCode) Class {
	switch code {
	case http2.ErrCodeRefusedStream:
		return StreamRefused
	case http2.ErrCodeFlowControl:
		return FlowControl
	default:
		return StreamReset.with(code.String())
	}
}

// ofHTTP3 classifies the codes of RFC 9114, section 8.1.
func ofHTTP3(err *http3.Error) Class {
	_, connection := errors.AsType[*quic.ApplicationError](err)
	switch {
	case err.ErrorCode == http3.ErrCodeRequestRejected:
		return StreamRefused
	case connection && err.ErrorCode == http3.ErrCodeNoError:
		return GoAway
	case connection:
		return Closed
	default:
		return StreamReset.with(err.ErrorCode.String())
	}
}

func ofQUIC(err error) Class {
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
