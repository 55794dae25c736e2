// Package ending describes how a call ends on its client: with success or with an error. Only the
// server's trailers can make a call succeed. The package must not know streams.
package ending

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// An Ending says how a call ended on its client. The zero value means that the call is open.
//
// Only Kind says whether the call succeeded. An error cannot: io.EOF may mean a lost connection, or
// the normal end of a stream.
type Ending struct {
	Kind Kind
	Err  error // its status is never OK; nil if the call is open or has succeeded
}

// A Kind says whether a call has ended, and whether it has succeeded.
type Kind uint8

// The kinds. failedKind is not exported, so that only [FromError] makes a failed Ending.
const (
	Open Kind = iota
	Succeeded
	failedKind
)

// Done reports whether the call has ended.
func (e Ending) Done() bool { return e.Kind != Open }

// FromError returns an ending with the error err. If err is nil or its status is OK, the ending has
// an Internal error instead.
func FromError(err error) Ending {
	if status.Code(err) == codes.OK {
		err = status.Errorf(codes.Internal, "fastgrpc: the call failed, but its error has the status OK: %v", err)
	}
	return Ending{failedKind, err}
}

// FromTrailers returns the ending of a call whose trailers hold this status.
func FromTrailers(code, message, details string) Ending {
	if code == "0" {
		return Ending{Kind: Succeeded} // the usual case, without a status in memory
	}
	st, err := wire.ParseStatus(code, message, details)
	switch {
	case err != nil:
		return FromError(status.Errorf(codes.Unknown, "fastgrpc: the server sent an invalid status: %v", err))
	case st.Code() != codes.OK:
		return FromError(st.Err())
	}
	return Ending{Kind: Succeeded}
}

// FromBadResponse returns the ending of a call whose response violates the gRPC protocol.
func FromBadResponse(code codes.Code, format string, args ...any) Ending {
	return FromError(status.Errorf(code, "fastgrpc: "+format, args...))
}

// FromReset returns the ending of a call whose stream was reset.
func FromReset(why h2.Reset, deadline time.Time) Ending {
	// Some programs search for this text of grpc-go.
	text := fmt.Sprintf("fastgrpc: stream terminated by RST_STREAM with error code: %s", why.Code)
	code := codeOfReset(why.Code, deadline)
	if why.Reason != "" {
		text += "; " + why.Reason
		if !why.Unprocessed { // this end found the error in the stream
			code = codes.Internal
		}
	}
	return FromError(status.Error(code, text))
}

// FromLostConn returns the ending of a call whose connection was lost.
func FromLostConn(peer net.Addr, cause error) Ending {
	st := status.Newf(codes.Unavailable, "fastgrpc: the connection to %v was lost: %v", peer, cause)
	return FromError(rpccall.WithCause(st, cause))
}

// codeOfReset maps RST_STREAM error codes to gRPC codes, as grpc-go does. CANCEL after the deadline
// means DeadlineExceeded: the server's CANCEL may arrive before the client's own timer fires.
func codeOfReset(code http2.ErrCode, deadline time.Time) codes.Code {
	switch code {
	case http2.ErrCodeRefusedStream:
		return codes.Unavailable
	case http2.ErrCodeCancel:
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			return codes.DeadlineExceeded
		}
		return codes.Canceled
	case http2.ErrCodeFlowControl, http2.ErrCodeEnhanceYourCalm:
		return codes.ResourceExhausted
	case http2.ErrCodeInadequateSecurity:
		return codes.PermissionDenied
	}
	if code > http2.ErrCodeHTTP11Required {
		return codes.Unknown
	}
	return codes.Internal
}
