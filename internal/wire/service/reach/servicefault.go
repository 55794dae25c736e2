package reach

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/service"
)

// Name returns the address of a service and its wire, for messages.
func Name(d *service.Definition) string { return fmt.Sprintf("%s (%s)", d.Address, d.Wire) }

// errNoGRPC is the error of a call of gRPC that was answered in HTTP.
var errNoGRPC = errors.New("it speaks no gRPC")

// errTLSOnly is the error of a request without TLS to a server that takes only TLS.
var errTLSOnly = errors.New("it answers 400 to a request without TLS")

// DescribeFailure returns an error that says why a service cannot be called, and what to do.
func DescribeFailure(d *service.Definition, err error, found Listening, limit time.Duration) error {
	class, quic := failure.Of(err), ""
	if d.Wire == service.HTTP3 || d.Wire == service.GRPCH3 {
		quic = fmt.Sprintf("the call over QUIC, on UDP, failed: %s: check that a server of HTTP/3 listens there, or leave --http 3 out", FirstLine(err))
	}
	return fmt.Errorf("%s: %s", Name(d), cmp.Or(untrusted(err, class), quic, unreachable(err, found),
		mismatch(d, found), silence(class, found, limit), describeCall(d, err, found)))
}

// mismatch says in which way the server speaks another protocol than the definition; it is
// empty where it does not.
func mismatch(d *service.Definition, found Listening) string {
	secure, onlyHTTP1 := d.TLS != nil, found.Protocol == http1Name && !found.HTTP2
	switch {
	case secure && !found.TLS && found.Protocol != "":
		return fmt.Sprintf("it speaks no TLS: %s is there: write %s:// in place of %s://", found, scheme(d, false), scheme(d, true))
	case !secure && found.TLS:
		return fmt.Sprintf("%s is there: write %s:// in place of %s://, with --cacert FILE or -k for a certificate of your own", found, scheme(d, true), scheme(d, false))
	case onlyHTTP1 && d.Wire == service.GRPC:
		return fmt.Sprintf("%s is there, and gRPC goes over HTTP/2: name the address of a gRPC server, or load it as %s://", found, map[bool]string{true: "https", false: "http"}[secure])
	case onlyHTTP1 && d.Wire == service.HTTP2:
		return fmt.Sprintf("%s is there: leave --http 2 out", found)
	case found.Protocol == http2Name && d.Wire == service.HTTP1 && !secure:
		return fmt.Sprintf("%s is there: add --http 2, or write grpc:// if it is a gRPC server", found)
	}
	return ""
}

// silence says that no answer came in time; it is empty for other failures.
func silence(class failure.Class, found Listening, limit time.Duration) string {
	switch late := class == failure.Deadline || class == failure.HandshakeTimeout; {
	case late && found == (Listening{}):
		return fmt.Sprintf("it takes connections and did not answer within %v: does it hang, or speak another protocol? --timeout gives it longer", limit)
	case late:
		return fmt.Sprintf("no whole answer within %v: %s is there: --timeout gives it longer", limit, found)
	}
	return ""
}

// describeCall says how the call itself failed.
func describeCall(d *service.Definition, err error, found Listening) string {
	class, web := failure.Of(err), map[bool]string{true: "https", false: "http"}[d.TLS != nil]
	switch {
	case d.Wire.IsGRPC() && strings.Contains(err.Error(), "unexpected HTTP status code"):
		return fmt.Sprintf("%s is there, and answers reflection without gRPC: name the .proto with --proto if it passes other calls on, name the address of a gRPC server, or load it with --http 2 as %s://", found, web)
	case errors.Is(err, errNoGRPC):
		return fmt.Sprintf("%s: name the address of a gRPC server, or load it with --http 2 as %s://", FirstLine(err), web)
	case d.Network == "tcp" && found == (Listening{}):
		return fmt.Sprintf("what listens there answers as neither HTTP nor TLS does (%s): name the address of a server that speaks %s", FirstLine(err), map[bool]string{true: "gRPC", false: "HTTP"}[d.Wire.IsGRPC()])
	case class == failure.Closed, class == failure.Reset:
		return fmt.Sprintf("it ended the connection before its answer was whole (%s): see what the server says of it", FirstLine(err))
	default:
		return fmt.Sprintf("the first call failed: %s", FirstLine(err))
	}
}

// scheme returns the scheme of the definition's URL.
func scheme(d *service.Definition, secure bool) string {
	name := "http"
	if d.Wire.IsGRPC() {
		name = "grpc"
	}
	if secure {
		name += "s"
	}
	return name
}
