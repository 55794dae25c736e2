// Package catalog is the visible list of stacks, and the judge of variants. A
// new stack is a folder beside this and a line here.
package catalog

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
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
	}
}

// inFlight is the option of every stack that the load engine carries out.
const inFlight = "inflight"

// Common lists the options that every stack takes. The adapters never see them.
func Common() []stack.Option {
	return []stack.Option{
		{Key: inFlight, Help: "calls in flight at most, held back by a semaphore in the client, as in inflight=50"},
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
	return nil, fmt.Errorf("stack %q: want one of %s", name, strings.Join(names, ", "))
}

// Check says why there is no such variant.
func Check(v scenario.Variant) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	options := append(s.Options(), Common()...)
	for _, set := range v.Options {
		i := slices.IndexFunc(options, func(o stack.Option) bool { return o.Key == set.Key })
		if i < 0 {
			return fmt.Errorf("variant %s: %s has no option %q; it has %s", v, v.Stack, set.Key, keys(options))
		}
		if values := options[i].Values; len(values) > 0 && !slices.Contains(values, set.Value) {
			return fmt.Errorf("variant %s: %s=%s: want one of %s", v, set.Key, set.Value, strings.Join(values, ", "))
		}
	}
	if _, err := InFlight(v); err != nil {
		return err
	}
	// What only the stack knows of its values, it says here.
	_, err = s.NewServer(OwnOptions(v))
	return err
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

func keys(options []stack.Option) string {
	var names []string
	for _, o := range options {
		names = append(names, o.Key)
	}
	return strings.Join(names, ", ")
}
