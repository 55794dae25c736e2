package service

import (
	"fmt"
	"slices"
	"strconv"

	"wirelab.dev/internal/data/scenario"
)

// Vocabulary returns what the scenario of a load may name: the wires, and a limit of the
// requests in flight. The workload is whatever the service serves.
func Vocabulary() scenario.Vocabulary {
	return scenario.Vocabulary{
		CheckVariant:  checkVariant,
		CheckWorkload: func(string) error { return nil },
		CheckPayload:  func(scenario.Part, scenario.Payload) error { return nil },
	}
}

func checkVariant(v scenario.Variant, _ scenario.Part) error {
	if wire, _ := v.Get("wire"); v.Stack != Stack || !slices.Contains([]Wire{HTTP1, HTTP2, HTTP3, GRPC, GRPCH3}, Wire(wire)) {
		return fmt.Errorf("variant %s: want %s with one of the wires h1, h2, h3, grpc and grpc-h3", v, Stack)
	}
	if limit, limited := v.Get("inflight"); limited {
		if n, err := strconv.Atoi(limit); err != nil || n < 1 {
			return fmt.Errorf("found %s requests in flight: want 1 or more", limit)
		}
	}
	return nil
}
