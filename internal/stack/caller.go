package stack

import (
	"fmt"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/yardstick"
)

const callerKey = "caller"

// CallerOption is the option of a gRPC stack that lets a program of others make the
// calls. own is its value where the stack's own client does.
func CallerOption(own string) scenario.Option {
	values := []string{own}
	for _, c := range yardstick.Clients {
		values = append(values, c.Name)
	}
	return scenario.Option{
		Key: callerKey, Values: values, Default: own,
		Help: own + ": the stack's own client; else a program of others that calls in its place, in cleartext, which `run --yardstick` prepares",
	}
}

// ForeignClient is the program of others that calls a variant's server, if one does.
func ForeignClient(v scenario.Variant) (yardstick.Client, bool) {
	caller, _ := v.Get(callerKey)
	return yardstick.FindClient(caller)
}

// CheckCallerKind returns an error for calls that a variant's foreign client cannot make.
func CheckCallerKind(v scenario.Variant, kind Kind) error {
	if client, foreign := ForeignClient(v); foreign && kind != Unary {
		return fmt.Errorf("%s=%s: %s makes unary calls only, no %s: %w", callerKey, client.Name, client.Name, kind, ErrUnsupported)
	}
	return nil
}

// CheckCallerSecurity fails the options if they ask a foreign client for TLS.
func CheckCallerSecurity(v scenario.Variant, o *scenario.Options, security Security) {
	if client, foreign := ForeignClient(v); foreign && security.On {
		o.Fail(fmt.Errorf("%s=%s: %s calls in cleartext; leave tls out", callerKey, client.Name, client.Name))
	}
}
