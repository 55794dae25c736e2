// Package failure names what a failed call met: the machine's limits, the
// network, the handshake, the protocol, or the application's own answer.
//
// An error reaches it as the adapter returned it. Where the cause is still in
// the chain (errors.As), it decides; where a library has flattened it into
// text, the text does, and only where the library's own source makes it exact.
//
// This package must not know any stack, nor count anything.
package failure

import (
	"errors"
	"syscall"
)

// Class is what a call met. It is a word, with a detail behind a colon where
// one class has kinds: "tls-alert: bad certificate".
type Class string

// The classes.
const (
	PortExhaustion  Class = "port-exhaustion"  // no local port is free (EADDRNOTAVAIL)
	DescriptorLimit Class = "descriptor-limit" // no file descriptor is free (EMFILE, ENFILE)
	Refused         Class = "refused"          // nobody listens
	Unknown         Class = "other"
)

// Of names what the call met.
func Of(err error) Class {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return PortExhaustion
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return DescriptorLimit
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	}
	return Unknown
}
