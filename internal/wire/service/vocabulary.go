package service

import (
	"fmt"
	"strconv"

	"wirelab.dev/internal/data/scenario"
)

// Vocabulary returns what the scenario of a load may name. Targets are parsed before, so only the
// limit of the requests in flight is checked; the workload is whatever the service serves.
func Vocabulary() scenario.Vocabulary {
	return scenario.Vocabulary{
		CheckVariant:  checkVariant,
		CheckWorkload: func(string) error { return nil },
		CheckPayload:  func(scenario.Part, scenario.Payload) error { return nil },
	}
}

func checkVariant(v scenario.Variant, _ scenario.Part) error {
	if limit, limited := v.Get("inflight"); limited {
		if n, err := strconv.Atoi(limit); err != nil || n < 1 {
			return fmt.Errorf("found %s requests in flight: want 1 or more", limit)
		}
	}
	return nil
}
