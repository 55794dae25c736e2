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
	"wirelab.dev/internal/wire/congestion"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
)

// The options of every stack that can go over TLS.
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
	// Handshakes bounds the handshakes of a server at once; 0: no bound.
	Handshakes int
}

// Encryption says whether a stack's TLS is optional.
type Encryption int

// The kinds of encryption.
const (
	OptionalTLS Encryption = iota // cleartext unless tls=on
	AlwaysTLS                     // the wire has no cleartext form
)

// TLSOptions declares the options that SecurityOf reads.
func TLSOptions(e Encryption) []scenario.Option {
	on := scenario.Option{
		Key: tlsKey, Values: []string{"off", "on"}, Default: "off", Help: "TLS 1.3, with a certificate made at run time",
		Contrast: &scenario.Contrast{Name: "TLS"},
	}
	if e == AlwaysTLS {
		on = scenario.Option{Key: tlsKey, Values: []string{"on"}, Default: "on", Help: "TLS 1.3: this wire has no other form"}
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
			Key: admissionKey, Parse: scenario.Count, Help: "TLS: N: handshakes that a server has in progress at most; further connections wait",
			// A bound affects memory and the tail.
			Contrast: &scenario.Contrast{Name: "handshakes at once", Unset: "unbounded", Metrics: []string{"server-peak", "p99", "throughput"}},
		},
	}
}

func (i Info) hasTLS() bool {
	return slices.ContainsFunc(i.Options, func(o scenario.Option) bool { return o.Key == tlsKey })
}

// SecurityOf reads the TLS options. Setting one without TLS is an error: it has no effect.
func SecurityOf(o *scenario.Options) Security {
	s := Security{On: o.On(tlsKey), Handshakes: scenario.Value[int](o, admissionKey)}
	for _, key := range []string{certificateKey, groupKey, admissionKey} {
		if o.Has(key) && !s.On {
			o.Fail(fmt.Errorf("%s has no effect without tls=on", key))
		}
	}
	s.Certificate = secure.Certificate(o.Text(certificateKey))
	if o.Has(groupKey) { // unset: Go's default
		s.Group = secure.Group(o.Text(groupKey))
	}
	return s
}

// ServerConfig makes a server's certificate, and its root for clients. Without TLS both are nil.
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

// A Listener is a listener that Security.Listen made, with its TLS configuration.
type Listener struct {
	net.Listener
	TLS     *tls.Config // nil: cleartext
	RootPEM []byte      // the root certificate that clients must trust
}

// Listen binds an address. If handshakes are bounded the listener does them, otherwise the caller.
func (s Security) Listen(ctx context.Context, address string, protocols ...string) (l Listener, err error) {
	if l.TLS, l.RootPEM, err = s.ServerConfig(protocols...); err != nil {
		return l, err
	}
	if l.Listener, err = congestion.Listen(ctx, "tcp", address); err != nil {
		return l, err
	}
	if s.Handshakes > 0 {
		l.Listener = conn.Admit(l.Listener, l.TLS, s.Handshakes)
	}
	return l, nil
}

// Secure returns the variant with TLS on. If s has no TLS, the variant's check fails, so that a
// user who asks for TLS never gets cleartext.
func Secure(s Stack, v scenario.Variant) scenario.Variant {
	if _, set := v.Get(tlsKey); set || IsSecure(s, v) {
		return v
	}
	return v.With(tlsKey, "on")
}

// IsSecure reports whether a variant of s goes over TLS.
func IsSecure(s Stack, v scenario.Variant) bool {
	if value, set := v.Get(tlsKey); set {
		return value == "on"
	}
	return slices.ContainsFunc(s.Info().Options, func(o scenario.Option) bool { return o.Key == tlsKey && o.Default == "on" })
}

const (
	// CallerKey is the option that chooses the calling program.
	CallerKey = "caller"
	// preparedCaller is wirelab's engine for services of the user's own.
	preparedCaller = "load"
)

// RequestMaker is an optional interface of a Client whose unary calls other programs can send.
type RequestMaker interface {
	UnaryRequest(ctx context.Context, method string, message any) (*http.Request, error)
}

// CallerOption returns the option that chooses the calling program; own is the stack's client.
func CallerOption(own string, protocol generator.Protocol) scenario.Option {
	values := []string{own, preparedCaller}
	for _, c := range foreign.Generators {
		if slices.Contains(c.Speaks, protocol) {
			values = append(values, c.Name)
		}
	}
	return scenario.Option{
		Key: CallerKey, Values: values, Default: own, Role: scenario.CallerRole,
		Help: own + ": the stack's own client; load: the engine of `wirelab load`, which encodes requests ahead; otherwise a foreign program, which `run --yardstick` prepares; load and foreign programs call in cleartext",
	}
}

// callerOf returns the program that calls in place of a variant's own client, or "".
func callerOf(v scenario.Variant) string {
	caller, _ := v.Get(CallerKey)
	if _, known := foreign.Generators.Find(caller); known || caller == preparedCaller {
		return caller
	}
	return ""
}

// HasOwnClient reports whether a variant's own client makes its calls.
func HasOwnClient(v scenario.Variant) bool { return callerOf(v) == "" }

// CallsPrepared reports whether wirelab's engine for the user's own services makes the calls.
func CallsPrepared(v scenario.Variant) bool { return callerOf(v) == preparedCaller }

// ForeignClient returns the foreign program that calls a variant's server, if there is one.
func ForeignClient(v scenario.Variant) (generator.Generator, bool) {
	return foreign.Generators.Find(callerOf(v))
}

// CheckCallerKind returns an error for calls that only the variant's own client can make.
func CheckCallerKind(v scenario.Variant, kind Kind) error {
	if caller := callerOf(v); caller != "" && kind != Unary {
		return fmt.Errorf("%s=%s: %s makes unary calls only, no %s: %w", CallerKey, caller, caller, kind, ErrUnsupported)
	}
	return nil
}

// CheckCallerSecurity fails the options if another caller is combined with TLS.
func CheckCallerSecurity(v scenario.Variant, o *scenario.Options, security Security) {
	if caller := callerOf(v); caller != "" && security.On {
		o.Fail(fmt.Errorf("%s=%s: %s calls in cleartext; leave tls out", CallerKey, caller, caller))
	}
}
