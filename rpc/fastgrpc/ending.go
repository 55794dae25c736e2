package fastgrpc

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

// ending is how a call ended on its client; the zero value means that it is open.
//
// Only kind says whether a call succeeded, and only the server's trailers make it
// succeeded. An error must never say it: to its reader, a lost connection is an io.EOF
// too, as is a stream that was read to its end.
type ending struct {
	kind endKind
	err  error // has a status that is not OK; nil if the call is open or has succeeded
}

// endKind lists all the ways a call can end. Each has one constructor, which gives it a
// status.
type endKind uint8

const (
	open          endKind = iota
	succeeded             // the server's status is OK
	failed                // the server's status is another
	badResponse           // the response breaks the rules of gRPC
	resetByServer         // RST_STREAM, or GOAWAY before the server processed the call
	connLost              // the connection failed, or its peer broke the rules of HTTP/2
	clientClosed          // the program closed the client
	contextEnded          // the call was cancelled, or has passed its deadline
	abandoned             // this end could not begin it, or encode or decode a message
)

func (e ending) done() bool { return e.kind != open }

// unsuccessful returns an ending whose err is never nil and never OK.
func unsuccessful(kind endKind, err error) ending {
	if status.Code(err) == codes.OK {
		err = status.Errorf(codes.Internal, "fastgrpc: the call failed with an error whose status is OK: %v", err)
	}
	return ending{kind, err}
}

// endFromServer is the ending that the trailers' status says.
func endFromServer(code, message, details string) ending {
	st, err := wire.ParseStatus(code, message, details)
	switch {
	case err != nil:
		return ending{failed, status.Errorf(codes.Unknown, "fastgrpc: %v", err)}
	case st.Code() != codes.OK:
		return ending{failed, st.Err()}
	}
	return ending{kind: succeeded}
}

func endBadResponse(code codes.Code, format string, args ...any) ending {
	return unsuccessful(badResponse, status.Errorf(code, "fastgrpc: "+format, args...))
}

func endReset(why h2.Reset, deadline time.Time) ending {
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

func endConnLost(peer net.Addr, cause error) ending {
	st := status.Newf(codes.Unavailable, "fastgrpc: connection to %v lost: %v", peer, cause)
	return unsuccessful(connLost, rpccall.WithCause(st, cause))
}

func endClientClosed() ending {
	return unsuccessful(clientClosed, status.Error(codes.Canceled, ErrClientClosed.Error()))
}

// endContext is the ending of a call whose own context ended with err.
func endContext(err error) ending {
	return unsuccessful(contextEnded, status.FromContextError(err).Err())
}

func endAbandoned(err error) ending { return unsuccessful(abandoned, err) }

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
