// Package catalog is the visible list of stacks, and the judge of variants. A
// new stack is a folder beside this and a line here.
package catalog

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/connectstack"
	"wirelab.dev/internal/stack/fake"
	"wirelab.dev/internal/stack/faststack"
	"wirelab.dev/internal/stack/filestack"
	"wirelab.dev/internal/stack/grpcstack"
	"wirelab.dev/internal/stack/rest"
	"wirelab.dev/internal/stack/restjson"
	"wirelab.dev/internal/stack/tcp"
)

// Stacks lists all of them. A stack's place is its colour in reports, so that a new
// one goes to the end.
func Stacks() []stack.Stack {
	return []stack.Stack{
		tcp.Stack{},
		rest.REST,
		grpcstack.Stack{},
		rest.H1,
		rest.H2,
		rest.H3,
		connectstack.Connect,
		connectstack.GRPC3,
		restjson.Stack{},
		faststack.Stack{Other: grpcstack.Stack{}},
		filestack.Stack{},
		fake.Stack{},
	}
}

// The options of every stack: the load engine and the worker carry them out.
const (
	inFlight   = scenario.InFlightOption
	connection = scenario.ConnectionOption
	client     = "client"
	messages   = "messages"
)

// The kinds of client.
const (
	sized = "sized"
	naive = "naive"
)

// Where received messages lie.
const (
	fresh  = "fresh"
	pooled = "pooled"
)

// Common lists the options that every stack takes. The adapters never see them.
func Common() []scenario.Option {
	return []scenario.Option{
		{Key: inFlight, Parse: scenario.Count, Help: "N: calls in flight at most, held back by a semaphore in the client, as in inflight=50"},
		{Key: connection, Parse: scenario.Parser(scenario.ParseConnection), Help: "MODE: how clients come by connections: shared, per-worker, pool, pool:N, new, resumed, 0rtt; wins over what is asked for beside it"},
		{Key: client, Values: []string{sized, naive}, Default: sized, Help: "sized: keeps clear of the machine's limits, as with sources spread over 127.0.0.0/8; naive: gives them no thought"},
		{Key: messages, Values: []string{fresh, pooled}, Default: fresh, Help: "pooled: who receives a stream receives every message into the same one, in the workloads that can; codecs with vtprotobuf then use its memory again"},
	}
}

// Find returns the stack of that name.
func Find(name string) (stack.Stack, error) {
	var names []string
	for _, s := range Stacks() {
		own := s.Info().Name
		if own == name {
			return s, nil
		}
		names = append(names, own)
	}
	return nil, fmt.Errorf("stack %q: %s", name, scenario.Suggest(name, names))
}

// Check says why there is no such variant, or nothing.
func Check(v scenario.Variant) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	if err := scenario.ReadOptions("variant", v, slices.Concat(s.Info().Options, Common())).Err(); err != nil {
		return err
	}
	if err := CheckConnection(v, scenario.Connection{}); err != nil {
		return err
	}
	// What only the stack knows of its values, it says here.
	server, err := s.NewServer(OwnOptions(v))
	if err != nil {
		return err
	}
	return server.Close()
}

// InFlight is the variant's limit of calls in flight; 0 means none.
func InFlight(v scenario.Variant) (int, error) {
	o := readCommon(v)
	return scenario.Value[int](o, inFlight), o.Err()
}

// Naive reports whether the variant's client gives the machine's limits no
// thought: that it runs into them is then its result.
func Naive(v scenario.Variant) bool { return readCommon(v).Text(client) == naive }

// PoolsMessages reports whether received messages are used again.
func PoolsMessages(v scenario.Variant) bool { return readCommon(v).Text(messages) == pooled }

// readCommon reads the options of every stack.
func readCommon(v scenario.Variant) *scenario.Options {
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool { return !isCommon(s) })
	return scenario.ReadOptions("variant", v, Common())
}

func isCommon(s scenario.Setting) bool {
	return slices.ContainsFunc(Common(), func(o scenario.Option) bool { return o.Key == s.Key })
}

// ConnectionOf is the mode that a variant of s runs in where asked, which may
// be the zero value, is what a person asked for.
func ConnectionOf(s stack.Stack, v scenario.Variant, asked scenario.Connection) scenario.Connection {
	if mode := scenario.Value[scenario.Connection](readCommon(v), connection); mode != (scenario.Connection{}) {
		return mode
	}
	return stack.ConnectionOf(s, v, asked)
}

// CheckConnection says why a variant cannot run in the mode that is asked for,
// or nothing.
func CheckConnection(v scenario.Variant, asked scenario.Connection) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	if err := readCommon(v).Err(); err != nil {
		return err
	}
	return stack.CheckLifecycle(s, v, stack.LifecycleOf(ConnectionOf(s, v, asked).Mode))
}

// Secure is the variant over TLS: itself where its stack has no other form, and
// one that Check refuses where it has no TLS.
func Secure(v scenario.Variant) scenario.Variant {
	s, err := Find(v.Stack)
	if err != nil {
		return v
	}
	return stack.Secure(s, v)
}

// OwnOptions is the variant without the options of every stack: what its
// adapter is made from.
func OwnOptions(v scenario.Variant) scenario.Variant {
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), isCommon)
	return v
}
