// Package ending says how calls end on their clients: which error a caller gets, and that
// only the server's trailers can make a call succeed. It must not know streams.
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

// An Ending says how a call ended on its client; the zero value means that it is open.
//
// Only Kind says whether a call succeeded, and only the server's trailers make it Succeeded. An
// error must never say it: io.EOF may mean a lost connection, or a stream that was read to its
// end.
type Ending struct {
	Kind Kind
	Err  error // has a status that is not OK; nil if the call is open or has succeeded
}

// A Kind says whether a call has ended, and whether it has succeeded.
type Kind uint8

// The kinds. Only [Failed] and the functions that call it make a failed Ending.
const (
	Open Kind = iota
	Succeeded
	failed
)

// Done reports whether the call has ended.
func (e Ending) Done() bool { return e.Kind != Open }

// Failed returns an ending whose Err is err, or an Internal error if err is nil or OK.
func Failed(err error) Ending {
	if status.Code(err) == codes.OK {
		err = status.Errorf(codes.Internal, "fastgrpc: the call failed with an error whose status is OK: %v", err)
	}
	return Ending{failed, err}
}

// FromServer returns the ending of a call with this status in its trailers.
func FromServer(code, message, details string) Ending {
	st, err := wire.ParseStatus(code, message, details)
	switch {
	case err != nil:
		return Failed(status.Errorf(codes.Unknown, "fastgrpc: %v", err))
	case st.Code() != codes.OK:
		return Failed(st.Err())
	}
	return Ending{Kind: Succeeded}
}

// BadResponse returns the ending of a call whose response breaks the rules of gRPC.
func BadResponse(code codes.Code, format string, args ...any) Ending {
	return Failed(status.Errorf(code, "fastgrpc: "+format, args...))
}

// Reset returns the ending of a call whose stream was reset.
func Reset(why h2.Reset, deadline time.Time) Ending {
	// The text is grpc-go's: some programs search for it.
	text := fmt.Sprintf("fastgrpc: stream terminated by RST_STREAM with error code: %s", why.Code)
	code := codeOfReset(why.Code, deadline)
	if why.Reason != "" {
		text += "; " + why.Reason
		if !why.Unprocessed { // this end has found the fault
			code = codes.Internal
		}
	}
	return Failed(status.Error(code, text))
}

// ConnLost returns the ending of a call whose connection was lost.
func ConnLost(peer net.Addr, cause error) Ending {
	st := status.Newf(codes.Unavailable, "fastgrpc: connection to %v lost: %v", peer, cause)
	return Failed(rpccall.WithCause(st, cause))
}

// codeOfReset maps RST_STREAM codes as grpc-go does. When a deadline passes, the
// server's CANCEL may arrive before the caller's own timer fires.
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
