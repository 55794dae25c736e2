package reach

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A Fault says why a variant of a stack cannot call the server at its target, and what was found
// there.
type Fault struct {
	Variant scenario.Variant
	Address string
	Err     error         // of the call, or of connecting for it
	Class   failure.Class // of Err
	Found   Listening
}

// MayBeRight reports whether what was found may be a server for the variant.
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

// mismatch says in which way the server is another than the variant calls.
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
		return fmt.Sprintf("%s is there, and the call fails: %s: let it serve the method that is called, or name one of its own with --proto and --call", found, err)
	}
}

// untrusted says what to do about a certificate that is not trusted; it is empty for other
// failures.
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

// unreachable says what to do where nothing listens; it is empty where something does.
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
