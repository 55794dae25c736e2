package stack

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/sockopt"
)

// These options exist for every stack that supports TLS.
const (
	tlsKey         = "tls"
	certificateKey = "cert"
	groupKey       = "group"
	admissionKey   = "handshakes"
)

// Security holds a variant's TLS options.
type Security struct {
	On bool
	secure.Choice
	// Handshakes limits a server's concurrent handshakes. 0 means no limit.
	Handshakes int
}

// Encryption says whether a stack can be used without TLS.
type Encryption int

// The kinds of encryption.
const (
	OptionalTLS Encryption = iota // cleartext, unless tls=on is set
	AlwaysTLS                     // the wire has no cleartext form
)

// TLSOptions declares the options that SecurityOf reads.
func TLSOptions(e Encryption) []scenario.Option {
	on := scenario.Option{
		Key: tlsKey, Values: []string{"off", "on"}, Default: "off", Help: "TLS 1.3, with a certificate made at run time",
		Contrast: &scenario.Contrast{Name: "TLS"},
	}
	if e == AlwaysTLS {
		on = scenario.Option{Key: tlsKey, Values: []string{"on"}, Default: "on", Help: "TLS 1.3: this stack has no cleartext form"}
	}
	return []scenario.Option{
		on,
		{
			Key: certificateKey, Values: secure.Certificates(), Default: secure.Certificates()[0], Help: "TLS: kind of the server's certificate",
			Contrast: &scenario.Contrast{Name: "certificate"},
		},
		{
			Key: groupKey, Values: secure.Groups(), Default: secure.Groups()[0], Help: "TLS: key exchange",
			Contrast: &scenario.Contrast{Name: "key exchange"},
		},
		{
			Key: admissionKey, Parse: scenario.Count, Help: "TLS: N: the limit of handshakes in progress at a server; further connections wait",
			// The limit affects memory and high percentiles.
			Contrast: &scenario.Contrast{Name: "handshakes at once", Unset: "unbounded", Metrics: []string{"server-peak", "p99", "throughput"}},
		},
	}
}

func (i Info) hasTLS() bool {
	return slices.ContainsFunc(i.Options, func(o scenario.Option) bool { return o.Key == tlsKey })
}

// SecurityOf reads the TLS options. If TLS is off but its options are set, o gets an error.
func SecurityOf(o *scenario.Options) Security {
	s := Security{On: o.On(tlsKey), Handshakes: scenario.Value[int](o, admissionKey)}
	for _, key := range []string{certificateKey, groupKey, admissionKey} {
		if o.Has(key) && !s.On {
			o.Fail(fmt.Errorf("%s has no effect without tls=on", key))
		}
	}
	s.Certificate = secure.Certificate(o.Text(certificateKey))
	if o.Has(groupKey) { // otherwise Go chooses the group
		s.Group = secure.Group(o.Text(groupKey))
	}
	return s
}

// ServerConfig makes a server's TLS configuration, and the root certificate for its clients.
// Without TLS both are nil.
func (s Security) ServerConfig(protocols ...string) (config *tls.Config, rootPEM []byte, err error) {
	if !s.On {
		return nil, nil, nil
	}
	identity, err := secure.Issue(s.Choice, secure.NoFlaw)
	if err != nil {
		return nil, nil, err
	}
	return identity.ServerConfig(protocols...), identity.RootPEM(), nil
}

// A Listener is the result of Security.Listen: a listener and its TLS configuration.
type Listener struct {
	net.Listener
	TLS     *tls.Config // nil means cleartext
	RootPEM []byte      // the root certificate that clients must trust
}

// Listen binds an address. If handshakes are limited, the listener does them; otherwise the caller
// must.
func (s Security) Listen(ctx context.Context, address string, protocols ...string) (l Listener, err error) {
	if l.TLS, l.RootPEM, err = s.ServerConfig(protocols...); err != nil {
		return l, err
	}
	if l.Listener, err = sockopt.Listen(ctx, "tcp", address); err != nil {
		return l, err
	}
	if s.Handshakes > 0 {
		l.Listener = conn.LimitHandshakes(l.Listener, l.TLS, s.Handshakes)
	}
	return l, nil
}

// Secure returns the variant with TLS on. If s has no TLS, the result is an invalid variant, so
// that a user who requests TLS never gets cleartext.
func Secure(s Stack, v scenario.Variant) scenario.Variant {
	if _, set := v.Get(tlsKey); set || IsSecure(s, v) {
		return v
	}
	return v.With(tlsKey, "on")
}

// IsSecure reports whether a variant of s uses TLS.
func IsSecure(s Stack, v scenario.Variant) bool {
	if value, set := v.Get(tlsKey); set {
		return value == "on"
	}
	return slices.ContainsFunc(s.Info().Options, func(o scenario.Option) bool { return o.Key == tlsKey && o.Default == "on" })
}

const (
	// CallerKey is the option that selects the program that makes the calls.
	CallerKey = "caller"
	// preparedCaller selects wirelab's engine for the user's own services.
	preparedCaller = "load"
)

// RequestMaker is an optional interface of a Client. It makes an HTTP request that other programs
// can send instead of a unary call.
type RequestMaker interface {
	UnaryRequest(ctx context.Context, method string, message any) (*http.Request, error)
}

// CallerOption returns the option that selects the calling program. own names the stack's client.
func CallerOption(own string, protocol generator.Protocol) scenario.Option {
	values := []string{own, preparedCaller}
	for _, c := range foreign.Generators {
		if slices.Contains(c.Speaks, protocol) {
			values = append(values, c.Name)
		}
	}
	return scenario.Option{
		Key: CallerKey, Values: values, Default: own, Role: scenario.CallerRole,
		Help: own + ": the stack's own client; load: the engine of `wirelab load`, which encodes requests in advance; otherwise a foreign program, which `run --yardstick` prepares; load and foreign programs call in cleartext",
	}
}

// otherCaller returns the program that replaces a variant's own client, or "".
func otherCaller(v scenario.Variant) string {
	caller, _ := v.Get(CallerKey)
	if _, known := foreign.Generators.Find(caller); known || caller == preparedCaller {
		return caller
	}
	return ""
}

// HasOwnClient reports whether the stack's own client makes the variant's calls.
func HasOwnClient(v scenario.Variant) bool { return otherCaller(v) == "" }

// UsesLoadEngine reports whether wirelab's engine for the user's own services makes the calls.
func UsesLoadEngine(v scenario.Variant) bool { return otherCaller(v) == preparedCaller }

// ForeignClient returns the foreign program that makes a variant's calls, if there is one.
func ForeignClient(v scenario.Variant) (generator.Generator, bool) {
	return foreign.Generators.Find(otherCaller(v))
}

// CheckCallerKind returns an error if the variant's caller does not support this kind of call.
func CheckCallerKind(v scenario.Variant, kind Kind) error {
	if caller := otherCaller(v); caller != "" && kind != Unary {
		return fmt.Errorf("%s=%s: this caller makes only unary calls, no %s: %w", CallerKey, caller, kind, ErrUnsupported)
	}
	return nil
}

// CheckCallerSecurity adds an error to the options if they select TLS and a caller without TLS.
func CheckCallerSecurity(v scenario.Variant, o *scenario.Options, security Security) {
	if caller := otherCaller(v); caller != "" && security.On {
		o.Fail(fmt.Errorf("%s=%s: this caller does not support TLS; leave out tls", CallerKey, caller))
	}
}
