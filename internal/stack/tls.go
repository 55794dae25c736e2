package stack

import (
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

// TLSOptions lists the options that SecurityOf reads.
func TLSOptions(e Encryption) []Option {
	on := Option{Key: tlsKey, Values: []string{"off", "on"}, Default: "off", Help: "TLS 1.3, with a certificate made at run time"}
	if e == AlwaysTLS {
		on = Option{Key: tlsKey, Values: []string{"on"}, Default: "on", Help: "TLS 1.3: this wire has no other form"}
	}
	return []Option{
		on,
		{Key: certificateKey, Values: secure.Certificates(), Default: secure.Certificates()[0], Help: "TLS: kind of the server's certificate"},
		{Key: groupKey, Values: secure.Groups(), Default: secure.Groups()[0], Help: "TLS: key exchange"},
		{Key: admissionKey, Help: "TLS: N: handshakes that a server has in progress at most; further connections wait"},
	}
}

// SecurityOf reads a variant's TLS options. One of them without TLS is an
// error: it would be believed and do nothing.
func SecurityOf(v scenario.Variant, e Encryption) (Security, error) {
	s := Security{On: e == AlwaysTLS}
	switch on, set := v.Get(tlsKey); {
	case on == "on":
		s.On = true
	case set && on != "off" || set && e == AlwaysTLS:
		return s, fmt.Errorf("variant %s: tls=%s: want on%s", v, on, map[Encryption]string{OptionalTLS: " or off", AlwaysTLS: ""}[e])
	}
	for _, key := range []string{certificateKey, groupKey, admissionKey} {
		if _, set := v.Get(key); set && !s.On {
			return s, fmt.Errorf("variant %s: %s means nothing without tls=on", v, key)
		}
	}
	certificate, _ := v.Get(certificateKey)
	group, _ := v.Get(groupKey)
	s.Choice = secure.Choice{Certificate: secure.Certificate(certificate), Group: secure.Group(group)}
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("variant %s: %w", v, err)
	}
	var err error
	s.Handshakes, err = Count(v, admissionKey)
	return s, err
}

// Secure is the variant over TLS: the same where s has no cleartext form. Where
// s has no TLS it is a variant that there is not, and the check of variants says
// so: nobody who asks for TLS may be given cleartext.
func Secure(s Stack, v scenario.Variant) scenario.Variant {
	for _, o := range s.Options() {
		if o.Key == tlsKey && o.Default == "on" {
			return v
		}
	}
	if _, set := v.Get(tlsKey); set {
		return v
	}
	return v.With(tlsKey, "on")
}

// LacksOverTLS is LacksLifecycle of a stack on TCP: it can resume where it has
// TLS, and has no early data.
func (s Security) LacksOverTLS(v scenario.Variant, l Lifecycle) error {
	switch {
	case l == Early:
		return fmt.Errorf("%s: 0rtt is QUIC's, and this wire is on TCP; h3 and grpc-h3 have it: %w", v, ErrUnsupported)
	case l == Resumed && !s.On:
		return fmt.Errorf("%s: without TLS there is no session to resume; set tls=on: %w", v, ErrUnsupported)
	default:
		return nil
	}
}
