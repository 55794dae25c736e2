package failure

import (
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A phrase identifies an error by part of its text, because its type says less.
type phrase struct {
	text  string
	class Class
}

// ofText classifies errors whose cause a library has turned into text.
func ofText(err error) Class {
	if err == nil {
		return ""
	}
	if class := find(webPhrases, err.Error()); class != "" {
		return class
	}
	st, is := status.FromError(err)
	if !is {
		return ""
	}
	// In grpc-go a call whose stream was reset has the gRPC code for the stream's
	// code, and a call whose connection ended has Unavailable.
	if _, code, broken := strings.Cut(st.Message(), "stream terminated by RST_STREAM with error code: "); broken {
		return ofStreamCode(code, st.Code())
	}
	if st.Code() == codes.Unavailable {
		return find(grpcPhrases, st.Message())
	}
	return ""
}

func find(phrases []phrase, in string) Class {
	for _, p := range phrases {
		if strings.Contains(in, p.text) {
			return p.class
		}
	}
	return ""
}

// webPhrases are phrases of net/http.
var webPhrases = []phrase{
	{"net/http: TLS handshake timeout", HandshakeTimeout},
	{"Client sent an HTTP request to an HTTPS server", PlaintextPeer},
	{`malformed HTTP response "\x15\x03`, PlaintextPeer}, // a TLS record
	{"http2: server sent GOAWAY", GoAway},
	{"; REFUSED_STREAM; received from peer", StreamRefused}, // of a request that cannot be sent again
}

// grpcPhrases are phrases of grpc-go's internal/transport. GOAWAY comes first, since it
// explains the end of the connection that follows it.
var grpcPhrases = []phrase{
	{"received prior goaway: code: ", GoAway},
	{"received goaway and there are no active streams", GoAway},
	{"no active streams left to process while draining", GoAway},
	{"the stream is rejected because server is draining the connection", GoAway},
	{"the connection is draining", GoAway},
	{"keepalive ping failed to receive ACK within timeout", Silent},
	{": " + syscall.ECONNRESET.Error(), Reset},
	{": " + syscall.EPIPE.Error(), Reset},
	{"error reading from server: EOF", Closed},
	{"error reading from server: unexpected EOF", Closed},
	{"error reading server preface: EOF", Closed},
	{"transport is closing", Closed},
}

// ofStreamCode classifies the code of RST_STREAM by its name. A server also resets the
// stream of a call whose deadline has passed: the class of that is Deadline.
func ofStreamCode(name string, code codes.Code) Class {
	name, _, _ = strings.Cut(name, ";")
	switch {
	case name == "REFUSED_STREAM":
		return StreamRefused
	case name == "FLOW_CONTROL_ERROR":
		return FlowControl
	case code == codes.DeadlineExceeded:
		return Deadline
	default:
		return StreamReset.with(name)
	}
}
