package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"strings"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
)

// parseTargets reads [STACK=]HOST:PORT. Without a stack the scenario must have
// just one.
func parseTargets(texts []string, s *scenario.Scenario) (map[string]string, error) {
	targets := map[string]string{}
	variants := s.Parts[0].Stacks
	for _, text := range texts {
		i := strings.LastIndex(text, "=") // a variant may have some of its own
		stack, address := text[:max(i, 0)], text[i+1:]
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("--target %s: want [STACK=]HOST:PORT, as in tcp=127.0.0.1:9000", text)
		}
		if _, err := net.LookupPort("tcp", port); err != nil {
			return nil, fmt.Errorf("--target %s: there is no port %q", text, port)
		}
		if stack == "" {
			if len(variants) != 1 {
				return nil, fmt.Errorf("--target %s: this address does not say which of the %d variants it serves: write for example %s=%s", text, len(variants), variants[0], address)
			}
			stack = variants[0].String()
		}
		if !slices.ContainsFunc(variants, func(v scenario.Variant) bool { return v.Stack == stack || v.String() == stack }) {
			return nil, fmt.Errorf("--target %s: no variant of this comparison is %s", text, stack)
		}
		targets[stack] = address
	}
	return targets, nil
}

// checkTargets calls each target once before anything is measured. A target that cannot be
// called would fail every trial alike.
func checkTargets(ctx context.Context, workshop *lab.Lab, plan []scenario.Planned) error {
	if len(workshop.Targets) > 0 {
		// net/http tells there, also after the call, what it did not expect of a server of
		// another protocol; what is said below says it better.
		log.SetOutput(io.Discard) //nolint:forbidigo // nothing is logged, but kept from being
	}
	if fault := workshop.TryTargets(ctx, plan); fault != nil {
		return fmt.Errorf("--target %s=%s: %s", fault.Variant, fault.Address, fault)
	}
	return nil
}
