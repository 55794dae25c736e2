// Package catalog lists all workloads, and parses their names with options. To add a workload, add
// a folder and a line in this file.
package catalog

import (
	"fmt"
	"time"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/chat"
	"wirelab.dev/internal/wire/workload/echo"
	"wirelab.dev/internal/wire/workload/message"
	"wirelab.dev/internal/wire/workload/own"
	"wirelab.dev/internal/wire/workload/ping"
	"wirelab.dev/internal/wire/workload/store"
	"wirelab.dev/internal/wire/workload/users"
)

// Workloads returns all workloads, the default one first.
func Workloads() []workload.Workload {
	return []workload.Workload{
		echo.Workload{},
		ping.Workload{},
		users.Workload{},
		store.Workload{},
		chat.Workload{},
		message.Workload{},
		own.Workload{},
	}
}

// Find parses a workload's name with its options, such as `users:op=get-user,work=0s`.
func Find(text string) (workload.Workload, []scenario.Setting, error) {
	return FindIn(Workloads(), text)
}

// FindIn is Find for the workloads of a list.
func FindIn(all []workload.Workload, text string) (workload.Workload, []scenario.Setting, error) {
	parsed, err := scenario.ParseWorkload(text)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, w := range all {
		name := w.Info().Name
		if name == parsed.Stack {
			return w, parsed.Options, w.Check(workload.Parameters{Settings: parsed.Options})
		}
		names = append(names, name)
	}
	return nil, nil, fmt.Errorf("workload %q: %s", parsed.Stack, spelling.Suggest(parsed.Stack, names))
}

// SimulatedWork returns how long the handler of every call sleeps, to simulate work or a stall.
// known is false if the time differs between calls.
func SimulatedWork(text string) (work time.Duration, known bool) {
	w, set, err := Find(text)
	if err != nil {
		return 0, false
	}
	options := workload.ReadOptions(w, workload.Parameters{Settings: set})
	for _, o := range w.Info().Options {
		switch {
		case o.Role == scenario.SimulatedWorkRole:
			return scenario.Value[time.Duration](options, o.Key), true
		case o.Key == workload.StallKey:
			work = workload.ReadStall(options).FixedDelay()
			return work, work > 0
		}
	}
	return 0, false
}
