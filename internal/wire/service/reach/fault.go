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

// A Fault says why a variant cannot call the server at its target, and which server listens there.
type Fault struct {
	Variant scenario.Variant
	Address string
	Err     error         // the error of the call, or of opening its connection
	Class   failure.Class // the class of Err
	Found   Listener
}

// MayMatch reports whether the server may be one that the variant can call.
func (f *Fault) MayMatch() bool {
	wants := f.Protocol()
	speaks := f.Found.Protocol == "" || f.Found.Protocol == wants || f.Found.HTTP2 && wants == http2Name
	return f.Found.Err == nil && f.Found.TLS == f.UsesTLS() && speaks
}

// Protocol returns the variant's protocol, or TCP if the protocol is wirelab's own.
func (f *Fault) Protocol() string {
	s, err := catalog.Find(f.Variant.Stack)
	if err != nil {
		return ""
	}
	return stack.ProtocolFor(s, catalog.OwnOptions(f.Variant))
}

// UsesTLS reports whether the variant uses TLS.
func (f *Fault) UsesTLS() bool {
	s, err := catalog.Find(f.Variant.Stack)
	return err == nil && stack.IsSecure(s, f.Variant)
}

// String says what was found at the target, and what the user can do.
func (f *Fault) String() string {
	quic := ""
	if isQUIC(f.Variant) {
		quic = fmt.Sprintf("%s calls over QUIC, on UDP, and the call failed: %s: check that a server of %s listens there", f.Variant, FirstLine(f.Err), describeProtocol(f.Protocol()))
	}
	return cmp.Or(describeUntrusted(f.Err, f.Class), quic, describeUnreachable(f.Err, f.Found), f.describeMismatch())
}

// describeMismatch says how the found server differs from the server that the variant calls.
func (f *Fault) describeMismatch() string {
	found, wants, err := f.Found, describeProtocol(f.Protocol()), FirstLine(f.Err)
	switch {
	case f.UsesTLS() && !found.TLS:
		return fmt.Sprintf("%s uses TLS, but the target is %s: leave TLS out, or name the address of a server with TLS", f.Variant, found)
	case !f.UsesTLS() && found.TLS:
		return fmt.Sprintf("%s uses no TLS, but the target is %s: add --tls, and --cacert FILE or -k if the system does not trust the server's certificate", f.Variant, found)
	case found.Protocol != "" && found.Protocol != f.Protocol() && !(found.HTTP2 && f.Protocol() == "HTTP/2"):
		return fmt.Sprintf("%s speaks %s, but the target is %s: choose a stack of the target's protocol (%s), or name the address of a server for %s",
			f.Variant, wants, found, strings.Join(stacksOf(found.Protocol), ", "), f.Variant.Stack)
	case found == (Listener{}) && isHTTP(f.Protocol()):
		return fmt.Sprintf("%s speaks %s, but the target is %s (%s): name the address of a server for %s", f.Variant, wants, found, err, f.Variant.Stack)
	case f.Class == failure.Deadline:
		return fmt.Sprintf("found %s, which did not answer a call of %s: check that the server speaks %s", found, f.Variant, wants)
	default:
		return fmt.Sprintf("found %s, but the call failed: %s: make the server serve this method, or name a served one with --proto and --call", found, err)
	}
}

// describeUntrusted says what to do about an untrusted certificate. For other errors it returns "".
func describeUntrusted(err error, class failure.Class) string {
	if !strings.HasPrefix(string(class), string(failure.Certificate)) {
		return ""
	}
	cure := "give the root with --cacert FILE"
	if _, is := errors.AsType[x509.HostnameError](err); is {
		cure = "use the host name in the certificate"
	}
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
		cure = "renew the certificate"
	}
	return fmt.Sprintf("the server's certificate is not trusted: %s: %s, or accept any certificate with -k", FirstLine(err), cure)
}

// describeUnreachable says what to do if no server listens. If a server listens, it returns "".
func describeUnreachable(err error, found Listener) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "the socket does not exist: start the server, or name the socket that it listens on"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(found.Err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused): start the server, or name the address that it listens on"
	case found.Err != nil:
		return fmt.Sprintf("the server cannot be reached: %s: check the address, and that this machine may connect to it", FirstLine(found.Err))
	}
	return ""
}

// FirstLine returns the first line of an error, without the web page that some servers send.
func FirstLine(err error) string {
	const longest = 240
	text, _, _ := strings.Cut(err.Error(), "\n")
	text, _, _ = strings.Cut(text, `: "<`)
	text = strings.TrimPrefix(text, "net/http: HTTP/1.x transport connection broken: ")
	if letters := []rune(text); len(letters) > longest {
		text = string(letters[:longest]) + "…"
	}
	return text
}

// describeProtocol names a stack's protocol, or says that the protocol is wirelab's own.
func describeProtocol(protocol string) string {
	if isHTTP(protocol) {
		return protocol
	}
	return "wirelab's own protocol (see `wirelab list`)"
}

func isHTTP(protocol string) bool { return strings.HasPrefix(protocol, "HTTP/") }

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

// DisplayName returns a service's address and wire, for messages.
func DisplayName(d *service.Definition) string { return fmt.Sprintf("%s (%s)", d.Address, d.Wire) }

// errNoGRPC is the error if the server answers a gRPC call with plain HTTP.
var errNoGRPC = errors.New("the server does not speak gRPC")

// errTLSOnly is the error if a server that requires TLS got a request without TLS.
var errTLSOnly = errors.New("the server answers 400 to a request without TLS")

// DescribeFailure returns an error that says why calls to a service fail and what the user can do.
func DescribeFailure(d *service.Definition, err error, found Listener, limit time.Duration) error {
	class, quic := failure.Of(err), ""
	if d.Wire == service.HTTP3 || d.Wire == service.GRPCH3 {
		quic = fmt.Sprintf("the call over QUIC, on UDP, failed: %s: check that a server of HTTP/3 listens there, or leave out --http 3", FirstLine(err))
	}
	return &describedError{fmt.Sprintf("%s: %s", DisplayName(d), cmp.Or(describeUntrusted(err, class), quic, describeUnreachable(err, found),
		describeMismatch(d, found), describeTimeout(class, found, limit), describeCall(d, err, found))), err}
}

// A describedError is an error with a text for users in place of its own.
type describedError struct {
	text  string
	cause error
}

func (e *describedError) Error() string { return e.text }
func (e *describedError) Unwrap() error { return e.cause }

// describeMismatch says how the server's protocol differs from the definition's protocol. It
// returns "" if the protocols are equal.
func describeMismatch(d *service.Definition, found Listener) string {
	secure, onlyHTTP1 := d.TLS != nil, found.Protocol == http1Name && !found.HTTP2
	switch {
	case secure && !found.TLS && found.Protocol != "":
		return fmt.Sprintf("found %s: write %s:// in place of %s://", found, urlScheme(d, false), urlScheme(d, true))
	case !secure && found.TLS:
		return fmt.Sprintf("found %s: write %s:// in place of %s://, and add --cacert FILE or -k if the system does not trust the server's certificate", found, urlScheme(d, true), urlScheme(d, false))
	case onlyHTTP1 && d.Wire == service.GRPC:
		return fmt.Sprintf("found %s, but gRPC needs HTTP/2: name the address of a gRPC server, or load it as %s://", found, map[bool]string{true: "https", false: "http"}[secure])
	case onlyHTTP1 && d.Wire == service.HTTP2:
		return fmt.Sprintf("found %s: leave out --http 2", found)
	case found.Protocol == http2Name && d.Wire == service.HTTP1 && !secure:
		return fmt.Sprintf("found %s: add --http 2, or write grpc:// for a gRPC server", found)
	}
	return ""
}

// describeTimeout describes a call that got no answer in time. For other failures it returns "".
func describeTimeout(class failure.Class, found Listener, limit time.Duration) string {
	switch late := class == failure.Deadline || class == failure.HandshakeTimeout; {
	case late && found == (Listener{}):
		return fmt.Sprintf("the server accepts connections, but did not answer within %v: check the server and its protocol, or wait longer with --timeout", limit)
	case late:
		return fmt.Sprintf("no complete answer within %v from %s: wait longer with --timeout", limit, found)
	}
	return ""
}

func describeCall(d *service.Definition, err error, found Listener) string {
	class, web := failure.Of(err), map[bool]string{true: "https", false: "http"}[d.TLS != nil]
	switch {
	case d.Wire.IsGRPC() && strings.Contains(err.Error(), "unexpected HTTP status code"):
		return fmt.Sprintf("found %s, which does not answer gRPC reflection: name the .proto with --proto, name the address of a gRPC server, or load this server with --http 2 as %s://", found, web)
	case errors.Is(err, errNoGRPC):
		return fmt.Sprintf("%s: name the address of a gRPC server, or load this server with --http 2 as %s://", FirstLine(err), web)
	case d.Network == "tcp" && found == (Listener{}):
		return fmt.Sprintf("the server's answer is neither HTTP nor TLS (%s): name the address of a server that speaks %s", FirstLine(err), map[bool]string{true: "gRPC", false: "HTTP"}[d.Wire.IsGRPC()])
	case class == failure.Closed, class == failure.Reset:
		return fmt.Sprintf("the server closed the connection before the end of the answer (%s): read the server's log", FirstLine(err))
	default:
		return fmt.Sprintf("the first call failed: %s", FirstLine(err))
	}
}

// urlScheme returns the URL scheme for the definition's wire, with or without TLS.
func urlScheme(d *service.Definition, secure bool) string {
	name := "http"
	switch {
	case d.Wire.IsGRPC():
		name = "grpc"
	case d.Wire == service.WebSocket:
		name = "ws"
	}
	if secure {
		name += "s"
	}
	return name
}
