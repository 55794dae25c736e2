// Package catalog is the visible list of stacks, and the judge of variants. A
// new stack is a folder beside this and a line here.
package catalog

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/fake"
	"wirelab.dev/internal/stack/grpcstack"
	"wirelab.dev/internal/stack/rest"
	"wirelab.dev/internal/stack/tcp"
)

// Stacks lists all of them.
func Stacks() []stack.Stack {
	return []stack.Stack{
		tcp.Stack{},
		rest.Stack{},
		grpcstack.Stack{},
		fake.Stack{},
	}
}

// inFlight is the option of every stack that the load engine carries out.
const inFlight = "inflight"

// Common lists the options that every stack takes. The adapters never see them.
func Common() []stack.Option {
	return []stack.Option{
		{Key: inFlight, Help: "N: calls in flight at most, held back by a semaphore in the client, as in inflight=50"},
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
	return nil, fmt.Errorf("stack %q: %s", name, suggest(name, names))
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
			return fmt.Errorf("%s=%s: %s", set.Key, set.Value, suggest(set.Value, o.Values))
		}
		return nil
	}
	return fmt.Errorf("%s has no option %q; %s", stackName, set.Key, suggest(set.Key, keys))
}

// InFlight is the variant's limit of calls in flight; 0 means none.
func InFlight(v scenario.Variant) (int, error) { return stack.Count(v, inFlight) }

// OwnOptions is the variant without the options of every stack: what its
// adapter is made from.
func OwnOptions(v scenario.Variant) scenario.Variant {
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool {
		return slices.ContainsFunc(Common(), func(o stack.Option) bool { return o.Key == s.Key })
	})
	return v
}
