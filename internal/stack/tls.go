package stack

import (
	"crypto/tls"
	"fmt"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/secure"
)

// The options of every stack that can go over TLS.
const (
	tlsKey         = "tls"
	certificateKey = "cert"
	groupKey       = "group"
	admissionKey   = "handshakes"
)

// Security is what a variant says of its TLS.
type Security struct {
	On bool
	secure.Choice
	// Handshakes bounds those that a server has in progress: further
	// connections wait to be accepted. 0: no bound.
	Handshakes int
}

// Encryption is how a stack stands to TLS.
type Encryption int

// The ways.
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
			// A bound is there for the memory and the tail.
			Contrast: &scenario.Contrast{Name: "handshakes at once", Unset: "unbounded", Metrics: []string{"server-peak", "p99", "throughput"}},
		},
	}
}

// SecurityOf is what the TLS options say. One of them without TLS is an error: it
// would be believed and do nothing.
func SecurityOf(o *scenario.Options) Security {
	s := Security{On: o.On(tlsKey), Handshakes: scenario.Value[int](o, admissionKey)}
	for _, key := range []string{certificateKey, groupKey, admissionKey} {
		if o.Has(key) && !s.On {
			o.Fail(fmt.Errorf("%s means nothing without tls=on", key))
		}
	}
	s.Certificate = secure.Certificate(o.Text(certificateKey))
	if o.Has(groupKey) { // else it is left to Go, whose default this is
		s.Group = secure.Group(o.Text(groupKey))
	}
	return s
}

// ServerConfig makes a server's identity, and what its clients must trust. Without
// TLS both are nil.
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

// Secure is the variant over TLS: the same where s has no cleartext form. Where
// s has no TLS it is a variant that there is not, and the check of variants says
// so: nobody who asks for TLS may be given cleartext.
func Secure(s Stack, v scenario.Variant) scenario.Variant {
	for _, o := range s.Info().Options {
		if o.Key == tlsKey && o.Default == "on" {
			return v
		}
	}
	if _, set := v.Get(tlsKey); set {
		return v
	}
	return v.With(tlsKey, "on")
}
