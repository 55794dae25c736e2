// Package ending says how calls end on their clients: which error a caller gets, and that
// only the server's trailers can make a call succeed. It must not know streams.
package ending

import (
	"errors"
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
// Only Kind says whether a call succeeded, and only the server's trailers make it
// Succeeded. An error must never say it: to its reader, a lost connection is an io.EOF
// too, as is a stream that was read to its end.
type Ending struct {
	Kind Kind
	Err  error // has a status that is not OK; nil if the call is open or has succeeded
}

// A Kind is one of the ways in which a call can end. Each has one constructor, which gives it a
// status.
type Kind uint8

// The kinds.
const (
	Open          Kind = iota
	Succeeded          // the server's status is OK
	failed             // the server's status is another
	badResponse        // the response breaks the rules of gRPC
	resetByServer      // RST_STREAM, or GOAWAY before the server processed the call
	connLost           // the connection failed, or its peer broke the rules of HTTP/2
	clientClosed       // the program closed the client
	contextEnded       // the call was cancelled, or has passed its deadline
	abandoned          // this end could not begin it, or encode or decode a message
)

// Done reports whether the call has ended.
func (e Ending) Done() bool { return e.Kind != Open }

// unsuccessful returns an ending whose err is never nil and never OK.
func unsuccessful(kind Kind, err error) Ending {
	if status.Code(err) == codes.OK {
		err = status.Errorf(codes.Internal, "fastgrpc: the call failed with an error whose status is OK: %v", err)
	}
	return Ending{kind, err}
}

// FromServer returns the ending of a call with this status in its trailers.
func FromServer(code, message, details string) Ending {
	st, err := wire.ParseStatus(code, message, details)
	switch {
	case err != nil:
		return Ending{failed, status.Errorf(codes.Unknown, "fastgrpc: %v", err)}
	case st.Code() != codes.OK:
		return Ending{failed, st.Err()}
	}
	return Ending{Kind: Succeeded}
}

// BadResponse returns the ending of a call whose response breaks the rules of gRPC.
func BadResponse(code codes.Code, format string, args ...any) Ending {
	return unsuccessful(badResponse, status.Errorf(code, "fastgrpc: "+format, args...))
}

// BadMessage returns the ending of a call with a message that is not valid.
func BadMessage(err error) Ending { return unsuccessful(badResponse, err) }

// Reset returns the ending of a call whose stream was reset.
func Reset(why h2.Reset, deadline time.Time) Ending {
	// The text is grpc-go's: some programs search for it.
	text := fmt.Sprintf("fastgrpc: stream terminated by RST_STREAM with error code: %s", why.Code)
	if why.Reason != "" {
		text += "; " + why.Reason
	}
	if why.Reason != "" && !why.Unprocessed { // this end has detected the fault
		return unsuccessful(badResponse, status.Error(codes.Internal, text))
	}
	return unsuccessful(resetByServer, status.Error(codeOfReset(why.Code, deadline), text))
}

// ConnLost returns the ending of a call whose connection was lost.
func ConnLost(peer net.Addr, cause error) Ending {
	st := status.Newf(codes.Unavailable, "fastgrpc: connection to %v lost: %v", peer, cause)
	return unsuccessful(connLost, rpccall.WithCause(st, cause))
}

// ErrClientClosed says why calls on a closed client fail.
var ErrClientClosed = errors.New("fastgrpc: the client is closed")

// ClientClosed returns the ending of a call whose client was closed.
func ClientClosed() Ending {
	return unsuccessful(clientClosed, status.Error(codes.Canceled, ErrClientClosed.Error()))
}

// Context returns the ending of a call whose own context ended with err.
func Context(err error) Ending {
	return unsuccessful(contextEnded, status.FromContextError(err).Err())
}

// Abandoned returns the ending of a call that this end could not begin, encode or decode.
func Abandoned(err error) Ending { return unsuccessful(abandoned, err) }

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
