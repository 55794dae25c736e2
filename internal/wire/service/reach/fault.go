package reach

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A Fault says why a variant cannot call the server at its target, and what was found there.
type Fault struct {
	Variant scenario.Variant
	Address string
	Err     error         // the error of the call, or of connecting for it
	Class   failure.Class // the class of Err
	Found   Listening
}

// MayBeRight reports whether a server for the variant may be listening.
func (f *Fault) MayBeRight() bool {
	wants := f.Wants()
	speaks := f.Found.Protocol == "" || f.Found.Protocol == wants || f.Found.HTTP2 && wants == http2Name
	return f.Found.Err == nil && f.Found.TLS == f.WantsTLS() && speaks
}

// Wants returns the protocol that the variant speaks: TCP, if it has one of its own.
func (f *Fault) Wants() string {
	s, err := catalog.Find(f.Variant.Stack)
	if err != nil {
		return ""
	}
	return stack.ProtocolFor(s, catalog.OwnOptions(f.Variant))
}

// WantsTLS reports whether the variant goes over TLS.
func (f *Fault) WantsTLS() bool {
	s, err := catalog.Find(f.Variant.Stack)
	return err == nil && stack.IsSecure(s, f.Variant)
}

// String says what was found at the target, and what to do.
func (f *Fault) String() string {
	quic := ""
	if isQUIC(f.Variant) {
		quic = fmt.Sprintf("%s calls over QUIC, on UDP, and that failed: %s: check that a server of %s listens there", f.Variant, FirstLine(f.Err), describeProtocol(f.Wants()))
	}
	return cmp.Or(untrusted(f.Err, f.Class), quic, unreachable(f.Err, f.Found), f.mismatch())
}

// mismatch describes how the server differs from the one that the variant calls.
func (f *Fault) mismatch() string {
	found, wants, err := f.Found, describeProtocol(f.Wants()), FirstLine(f.Err)
	switch {
	case f.WantsTLS() && !found.TLS:
		return fmt.Sprintf("%s goes over TLS, and %s is there: leave TLS out, or name the address of a server with TLS", f.Variant, found)
	case !f.WantsTLS() && found.TLS:
		return fmt.Sprintf("%s goes without TLS, and %s is there: add --tls, with --cacert FILE or -k for a certificate of your own", f.Variant, found)
	case found.Protocol != "" && found.Protocol != f.Wants() && !(found.HTTP2 && f.Wants() == "HTTP/2"):
		return fmt.Sprintf("%s speaks %s, and %s is there: measure it over a stack of that protocol (%s), or name the address of a server for %s",
			f.Variant, wants, found, strings.Join(stacksOf(found.Protocol), ", "), f.Variant.Stack)
	case found == (Listening{}) && isHTTP(f.Wants()):
		return fmt.Sprintf("%s speaks %s, and %s is there (%s): name the address of a server for %s", f.Variant, wants, found, err, f.Variant.Stack)
	case f.Class == failure.Deadline:
		return fmt.Sprintf("%s is there, and does not answer a call of %s: check that it speaks %s", found, f.Variant, wants)
	default:
		return fmt.Sprintf("%s is there, and the call fails: %s: make the server serve this method, or name one that it serves with --proto and --call", found, err)
	}
}

// untrusted says what to do about a certificate that is not trusted, or nothing.
func untrusted(err error, class failure.Class) string {
	if !strings.HasPrefix(string(class), string(failure.Certificate)) {
		return ""
	}
	cure := "give the root with --cacert FILE"
	if _, is := errors.AsType[x509.HostnameError](err); is {
		cure = "name the target as its certificate does"
	}
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
		cure = "renew it"
	}
	return fmt.Sprintf("its certificate is not trusted: %s: %s, or take any certificate with -k", FirstLine(err), cure)
}

// unreachable says what to do if nothing listens; it is empty if something does.
func unreachable(err error, found Listening) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket: start the server, or name the socket that it listens on"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(found.Err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused): start the server, or name the address that it listens on"
	case found.Err != nil:
		return fmt.Sprintf("it cannot be reached: %s: check the address, and that this machine may connect to it", FirstLine(found.Err))
	}
	return ""
}

// FirstLine returns the first line of an error, without a page: some servers answer with one.
func FirstLine(err error) string {
	const longest = 240
	text, _, _ := strings.Cut(err.Error(), "\n")
	text, _, _ = strings.Cut(text, `: "<`)
	if letters := []rune(text); len(letters) > longest {
		text = string(letters[:longest]) + "…"
	}
	return text
}

// describeProtocol names a stack's protocol, or says that it is its own.
func describeProtocol(protocol string) string {
	if isHTTP(protocol) {
		return protocol
	}
	return "a protocol of its own (see `wirelab list`)"
}

func isHTTP(protocol string) bool { return strings.HasPrefix(protocol, "HTTP/") }

// stacksOf returns the stacks that speak a protocol.
func stacksOf(protocol string) []string {
	var names []string
	for _, s := range catalog.Stacks() {
		if stack.ProtocolFor(s, scenario.Variant{Stack: s.Info().Name}) == protocol {
			names = append(names, s.Info().Name)
		}
	}
	return names
}

func isQUIC(v scenario.Variant) bool {
	s, err := catalog.Find(v.Stack)
	return err == nil && s.Info().QUIC
}

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

// mismatch describes how the server's protocol differs from the definition's, or returns "".
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

// silence describes a call without an answer in time; it is empty for other failures.
func silence(class failure.Class, found Listening, limit time.Duration) string {
	switch late := class == failure.Deadline || class == failure.HandshakeTimeout; {
	case late && found == (Listening{}):
		return fmt.Sprintf("it takes connections and did not answer within %v: does it hang, or speak another protocol? --timeout gives it longer", limit)
	case late:
		return fmt.Sprintf("no whole answer within %v: %s is there: --timeout gives it longer", limit, found)
	}
	return ""
}

// describeCall describes how the call itself failed.
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
		return fmt.Sprintf("it ended the connection before its answer was complete (%s): look into the server's log", FirstLine(err))
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
