package stack

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/foreign/generator"
)

const (
	// CallerKey is the option that says who calls.
	CallerKey = "caller"
	// preparedCaller is wirelab's engine for services of the user's own.
	preparedCaller = "load"
)

// RequestMaker is an optional interface of a Client on HTTP. It makes the requests that other
// programs send in place of the client's unary calls.
type RequestMaker interface {
	UnaryRequest(ctx context.Context, method string, message any) (*http.Request, error)
}

// CallerOption returns the option of a stack whose calls other programs can make, too. own is
// its value for the stack's own client.
func CallerOption(own string, protocol generator.Protocol) scenario.Option {
	values := []string{own, preparedCaller}
	for _, c := range foreign.Generators {
		if slices.Contains(c.Speaks, protocol) {
			values = append(values, c.Name)
		}
	}
	return scenario.Option{
		Key: CallerKey, Values: values, Default: own, Role: scenario.CallerRole,
		Help: own + ": the stack's own client; load: the engine of `wirelab load`, whose requests were encoded before; else a program of others that calls in its place, which `run --yardstick` prepares; these call in cleartext",
	}
}

// callerOf returns the name of the program that makes a variant's calls in place of its own
// client, or "" if there is none.
func callerOf(v scenario.Variant) string {
	caller, _ := v.Get(CallerKey)
	if _, known := foreign.Generators.Find(caller); known || caller == preparedCaller {
		return caller
	}
	return ""
}

// HasOwnClient reports whether a variant's own client makes its calls.
func HasOwnClient(v scenario.Variant) bool { return callerOf(v) == "" }

// CallsPrepared reports whether wirelab's engine for services of the user's own makes a
// variant's calls.
func CallsPrepared(v scenario.Variant) bool { return callerOf(v) == preparedCaller }

// ForeignClient returns the foreign program that calls a variant's server, if there is one.
func ForeignClient(v scenario.Variant) (generator.Generator, bool) {
	return foreign.Generators.Find(callerOf(v))
}

// CheckCallerKind returns an error for calls that only a variant's own client could make.
func CheckCallerKind(v scenario.Variant, kind Kind) error {
	if caller := callerOf(v); caller != "" && kind != Unary {
		return fmt.Errorf("%s=%s: %s makes unary calls only, no %s: %w", CallerKey, caller, caller, kind, ErrUnsupported)
	}
	return nil
}

// CheckCallerSecurity fails the options if they ask for TLS that only the own client has.
func CheckCallerSecurity(v scenario.Variant, o *scenario.Options, security Security) {
	if caller := callerOf(v); caller != "" && security.On {
		o.Fail(fmt.Errorf("%s=%s: %s calls in cleartext; leave tls out", CallerKey, caller, caller))
	}
}
