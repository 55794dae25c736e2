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

// Stacks lists all of them.
func Stacks() []stack.Stack {
	return []stack.Stack{
		tcp.Stack{},
		rest.REST,
		rest.H1,
		rest.H2,
		rest.H3,
		restjson.Stack{},
		grpcstack.Stack{},
		faststack.Stack{Other: grpcstack.Stack{}},
		connectstack.GRPC3,
		connectstack.Connect,
		filestack.Stack{},
		fake.Stack{},
	}
}

// The options of every stack: the load engine and the worker carry them out.
const (
	inFlight   = "inflight"
	connection = "conn"
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
func Common() []stack.Option {
	return []stack.Option{
		{Key: inFlight, Help: "N: calls in flight at most, held back by a semaphore in the client, as in inflight=50"},
		{Key: connection, Help: "MODE: how clients come by connections: shared, per-worker, pool, pool:N, new, resumed, 0rtt; wins over what is asked for beside it"},
		{Key: client, Values: []string{sized, naive}, Default: sized, Help: "sized: keeps clear of the machine's limits, as with sources spread over 127.0.0.0/8; naive: gives them no thought"},
		{Key: messages, Values: []string{fresh, pooled}, Default: fresh, Help: "pooled: who receives a stream receives every message into the same one, in the workloads that can; codecs with vtprotobuf then use its memory again"},
	}
}

// Find returns the stack of that name.
func Find(name string) (stack.Stack, error) {
	var names []string
	for _, s := range Stacks() {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	return nil, fmt.Errorf("stack %q: %s", name, scenario.Suggest(name, names))
}

// Check says why there is no such variant, or nothing.
func Check(v scenario.Variant) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	options := slices.Concat(s.Options(), Common())
	for _, set := range v.Options {
		if err := checkSetting(v.Stack, set, options); err != nil {
			return fmt.Errorf("variant %s: %w", v, err)
		}
	}
	if _, err := InFlight(v); err != nil {
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

func checkSetting(stackName string, set scenario.Setting, options []stack.Option) error {
	var keys []string
	for _, o := range options {
		if o.Key != set.Key {
			keys = append(keys, o.Key)
			continue
		}
		if len(o.Values) > 0 && !slices.Contains(o.Values, set.Value) {
			return fmt.Errorf("%s=%s: %s", set.Key, set.Value, scenario.Suggest(set.Value, o.Values))
		}
		return nil
	}
	return fmt.Errorf("%s has no option %q; %s", stackName, set.Key, scenario.Suggest(set.Key, keys))
}

// InFlight is the variant's limit of calls in flight; 0 means none.
func InFlight(v scenario.Variant) (int, error) { return stack.Count(v, inFlight) }

// Naive tells whether the variant's client gives the machine's limits no
// thought: that it runs into them is then its result.
func Naive(v scenario.Variant) bool {
	kind, _ := v.Get(client)
	return kind == naive
}

// PoolsMessages tells whether received messages are used again.
func PoolsMessages(v scenario.Variant) bool {
	where, _ := v.Get(messages)
	return where == pooled
}

// ConnectionOf is the mode that a variant of s runs in where asked, which may
// be the zero value, is what a person asked for.
func ConnectionOf(s stack.Stack, v scenario.Variant, asked scenario.Connection) scenario.Connection {
	if text, set := v.Get(connection); set {
		if mode, err := scenario.ParseConnection(text); err == nil { // Check has seen it
			return mode
		}
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
	if text, set := v.Get(connection); set {
		if _, err := scenario.ParseConnection(text); err != nil {
			return fmt.Errorf("variant %s: %w", v, err)
		}
	}
	return stack.LacksLifecycle(s, v, stack.LifecycleOf(ConnectionOf(s, v, asked).Mode))
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
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool {
		return slices.ContainsFunc(Common(), func(o stack.Option) bool { return o.Key == s.Key })
	})
	return v
}
